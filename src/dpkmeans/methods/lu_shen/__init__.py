"""The two strategies of Lu and Shen, and their zones."""
