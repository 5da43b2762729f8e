target "default" {
  name   = "wheel-${python}"
  matrix = { python = ["cp311", "cp313"] }
  target = "wheel"
  args   = { PYTHON = python }
  output = ["type=local,dest=dist"]
}
