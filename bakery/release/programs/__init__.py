"""The program of ``gpu-test``, which also runs on machines without Bakery: Python 3.8 and newer, standard library only."""
