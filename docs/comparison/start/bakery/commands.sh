wheel-bakery init
wheel-bakery full
