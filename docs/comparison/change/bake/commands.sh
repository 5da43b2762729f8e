docker buildx bake
