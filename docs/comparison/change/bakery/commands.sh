wheel-bakery wheel
