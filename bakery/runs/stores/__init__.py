"""Stores that share compiler caches between machines: Redis, S3, and servers that speak HTTP or WebDAV.

Only Bakery's own process talks to a store and knows its credentials. Build steps never do.
"""
