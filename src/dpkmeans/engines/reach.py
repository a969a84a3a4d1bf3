"""Whether a scheduler answers at an address: asked within seconds, before anything is started or spent."""

from __future__ import annotations

import re
import socket
import threading
from typing import Any

from dpkmeans.errors import EngineError, MethodError

TIMEOUT = 5.0  # seconds for a scheduler to answer; asked once more for each further address of a Spark master
_SPARK_PORT = 7077
_SPARK_STARTS = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|k8s://.+")
# An RPC request of Spark's transport (type 3, number 1) without a body; see org.apache.spark.network.protocol
_EMPTY_REQUEST = (21).to_bytes(8, "big") + b"\x03" + (1).to_bytes(8, "big") + (0).to_bytes(4, "big")
_SPARK_ANSWERS = (b"\x04", b"\x05")  # an answer, or the refusal of such a request


def reach_dask(address: str) -> None:
    """Refuse an address where no Dask scheduler answers.

    Asked without a `Client`: one that fails to connect goes on trying, and logs that it does.
    """
    import asyncio

    found: list[str] = []

    def ask() -> None:
        try:
            found.append(asyncio.run(_dask_kind(address)))
        except Exception:  # whoever does listen may answer anything
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(2 * TIMEOUT)
    if found != ["Scheduler"]:
        raise EngineError(
            f"no Dask scheduler answers at {address!r}.", hint="Write its address as tcp://HOST:PORT; 8786 is usual."
        )


async def _dask_kind(address: str) -> str:
    import asyncio

    from distributed.core import rpc
    from distributed.security import Security

    async def ask() -> Any:
        async with rpc(address, connection_args=Security().get_connection_args("client"), timeout=TIMEOUT) as other:
            return await other.identity()

    return str((await asyncio.wait_for(ask(), TIMEOUT))["type"])


def reach_spark(master: str) -> None:
    """Refuse what is no Spark master, or a `spark://` address where none answers: Spark itself takes a minute."""
    if _SPARK_STARTS.fullmatch(master):
        return
    hosts = re.fullmatch(r"spark://([^/]+)", master)
    if hosts is None:
        raise MethodError(
            f"{master!r} is not a Spark master.",
            hint="Write spark://HOST:PORT (7077 is usual), yarn, k8s://HOST:PORT or local[2].",
        )
    if not any(_is_spark(host) for host in hosts[1].split(",")):
        raise EngineError(
            f"no Spark master answers at {master!r}.", hint="Write its address as spark://HOST:PORT; 7077 is usual."
        )


def _is_spark(address: str) -> bool:
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(_SPARK_PORT))
    try:
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT) as connection:
            connection.settimeout(TIMEOUT)
            connection.sendall(_EMPTY_REQUEST)
            answer = connection.recv(9)
    except (OSError, ValueError, OverflowError):
        return False
    return answer == b"" or answer[8:9] in _SPARK_ANSWERS  # one that wants TLS hangs up
