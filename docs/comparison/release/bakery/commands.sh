wheel-bakery generate
