import bakery_example_cuda as example
import pytest

needs_gpu = pytest.mark.skipif(example.device_count() == 0, reason="no GPU here")


def test_imports_without_a_driver():
    assert example.device_count() >= 0


def test_finds_the_runtime_it_was_built_for():
    from bakery_example_cuda._build import CUDA_MAJOR

    assert example.runtime_version() // 1000 == CUDA_MAJOR


def test_refuses_arrays_of_different_length():
    with pytest.raises(ValueError, match="differ in length"):
        example.saxpy(1.0, [1.0], [1.0, 2.0])


def test_empty_arrays_need_no_gpu():
    assert example.saxpy(2.0, [], []) == []
    assert example.sum([]) == 0.0


@pytest.mark.skipif(example.device_count() > 0, reason="there is a GPU")
def test_says_why_without_a_gpu():
    with pytest.raises(RuntimeError, match="cudaMalloc"):
        example.saxpy(1.0, [1.0], [1.0])


@needs_gpu
@pytest.mark.parametrize("count", [1, 255, 256, 257, 1_000_003])
def test_saxpy(count):
    x = [i * 0.5 for i in range(count)]
    y = [1.0 - i for i in range(count)]
    assert example.saxpy(2.0, x, y) == [1.0] * count


@needs_gpu
@pytest.mark.parametrize("count", [1, 255, 256, 257, 1_000_003])
def test_sum(count):
    assert example.sum([1.0] * count) == count
