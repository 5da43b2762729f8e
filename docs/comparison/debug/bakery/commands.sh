wheel-bakery shell cp311-cu130
