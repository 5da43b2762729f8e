wheel-bakery audit other.whl
