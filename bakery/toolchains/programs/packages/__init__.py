"""The program ``packages``: Python runs this folder. Its modules import each other, and nothing else of bakery."""
