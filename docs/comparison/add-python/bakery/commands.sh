wheel-bakery full
