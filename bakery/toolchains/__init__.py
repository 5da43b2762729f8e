"""What a builder is assembled from: bases, CUDA toolkits, frameworks, programs that run in images, and fact tables.

A provider is one file with a ``PROVIDER``; ``registry`` finds them. Providers return stages and steps of the plan. This
package imports ``plan`` and ``core``.
"""
