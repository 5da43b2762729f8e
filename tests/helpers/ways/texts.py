"""Texts of a recipe that something else might interpret: a shell, bake, a Dockerfile, a runner, a terminal, Python."""

from __future__ import annotations

import json

from ways import Scene, way

TEXTS = {
    "substitution": "x$(touch VICTIM/pwned)y",
    "backticks": "x`touch VICTIM/pwned`y",
    "escaped_substitution": "x\\$(touch VICTIM/pwned)y",
    "twice_escaped": "x\\\\\\$(touch VICTIM/pwned)y",
    "single_quotes": "x';touch VICTIM/pwned;'y",
    "double_quotes": 'x";touch VICTIM/pwned;"y',
    "ansi_quotes": "$'\\n'touch VICTIM/pwned",
    "process_substitution": "<(touch VICTIM/pwned)",
    "lines": "x\ntouch VICTIM/pwned\n",
    "escapes": "\x1b]52;c;cHduZWQ=\x07\x1b[2Jpwned",
    "c1_controls": "\x9b2J\x9d0;pwned\x9c",
    "bidi": "\u202epwned\u2066x\u2069",
    "set_output": "\n::set-output name=pwned::1\n",
    "group": "##[group]pwned\n##vso[task.setvariable variable=x]pwned",
    "expression": "${{ secrets.GITHUB_TOKEN }} pwned",
    "heredoc_end": "x\nEOF\nRUN touch /pwned\nBAKERY\nRUN touch /pwned",
    "syntax_directive": "# syntax=ADDRESS/pwned\n",
    "escape_directive": "# escape=`\n# check=skip=all\npwned",
    "hcl_interpolation": "${HF_TOKEN}${BAKERY_CACHE_KEY}pwned",
    "hcl_directive": "%{ for x in [1] }${x}pwned%{ endfor }",
    "hcl_function": '${file("VICTIM/home/.ssh/id_rsa")}pwned',
    "shell_variable": "$HF_TOKEN${HF_TOKEN:-x}pwned",
    "format_braces": "{0.__class__.__init__.__globals__}{HF_TOKEN}%(HF_TOKEN)s%s%npwned",
    "option": "--push --set=*.output=type=local,dest=VICTIM",
    "path": "../../VICTIM/pwned",
    "markup": "[link=http://ADDRESS/pwned]x[/link] [red]:smile:",
    "html": "<script src=http://ADDRESS/pwned></script>&<!--",
    "yaml": "!!python/object/apply:os.system ['touch VICTIM/pwned']",
    "lone_zero": "pwned\0x",
}
"""Name → text; VICTIM and ADDRESS are replaced."""


def _text(s: Scene, text: str) -> str:
    return text.replace("VICTIM", str(s.victim)).replace("ADDRESS", s.address)


def _quoted(text: str) -> str:
    # A string of JSON is one of TOML, but for this.
    return json.dumps(text).replace("\x7f", "\\u007f")


def _make(name: str, text: str) -> None:
    def function(s: Scene) -> None:
        quoted = _quoted(_text(s, text))
        s.recipe(
            f"text_{name}",
            f"description = {quoted}\n[variables]\nFOO = {quoted}\n[builder.environment]\nBAR = {quoted}\n"
            f"[wheel]\nconfig-settings = {{ key = {quoted} }}\n",
        )

    function.__name__, function.__doc__ = f"text_{name}", f"The text {text!r} in a recipe."
    way("texts")(function)


for _name, _value in TEXTS.items():
    _make(_name, _value)


ONE_LINE = "x$(touch VICTIM/pwned)`touch VICTIM/pwned`\\$(touch VICTIM/pwned)';\";${HF_TOKEN}${{ x }}%{ if true }::x::##[group]"

FIELDS = {
    "name": "name = @",
    "version_of_python": "[matrix]\npython = [@]",
    "axis": "[matrix]\npython = ['3.11']\nflavour = [@]",
    "axis_name": "[matrix]\n@ = ['1']",
    "variable_name": "[variables]\n@ = 'x'",
    "variable_pattern": "[variables]\nFOO = { default = 'x', pattern = @ }",
    "environment_name": "[builder.environment]\n@ = 'x'",
    "system_package": "[builder]\nsystem-packages = [@]",
    "requirement": "[builder]\nrequirements = [@]",
    "before_build": "[builder]\nbefore-build = @",
    "native_into": "[native]\ncommand = 'true'\ninto = @",
    "config_setting": "[wheel.config-settings]\n@ = 'x'",
    "repair_exclude": "[wheel.repair]\nexclude = [@]",
    "naming": "[wheel.naming]\nlocal = @",
    "test_import": "[test]\nimports = [@]",
    "test_command": "[test]\ncommand = @",
    "test_file": "[test]\nfiles = [@]",
    "image": "[builder]\nbase = { image = @ }",
    "digest": "[builder]\nbase = { provider = 'manylinux_2_28', digest = @ }",
    "mirror": "[builder]\nbase = { provider = 'manylinux_2_28', registry = @ }",
    "platform": "platforms = [@]",
    "source": "source = @",
    "git_source": "source = { git = @, ref = @ }",
    "sdist": "source = { sdist = @ }",
    "ignore": "source = { path = '.', ignore = [@] }",
    "output": "[output]\ndirectory = @",
    "cache": "[cache]\nbackend = 'registry'\nref = @",
    "workflow_runner": "[ci]\nrunners = { 'linux/amd64' = @ }",
    "workflow_install": "[ci]\ninstall = @",
    "workflow_branch": "[ci]\nbranches = [@]\ntags = [@]",
    "workflow_environment": "[ci]\npublish = @\npublish-url = @",
    "secret_name": "[secrets.@]\nenv = 'HF_TOKEN'\nsteps = ['compile']",
    "unknown_key": "@ = @",
}
"""Where a text of a recipe may be; @ stands for it."""


def _field(name: str, template: str) -> None:
    def function(s: Scene) -> None:
        text = template.replace("@", _quoted(_text(s, ONE_LINE)))
        if name == "name":
            text = ""
            s.project("name", template.replace("@", _quoted(_text(s, ONE_LINE))))
        s.recipe(f"field_{name}", text)

    function.__name__, function.__doc__ = f"field_{name}", f"A text with commands in a recipe: {template!r}."
    way("texts")(function)


for _name, _value in FIELDS.items():
    _field(_name, _value)


@way("texts")
def errors_that_show_text(s: Scene) -> None:
    """Errors of TOML show the line that is wrong."""
    s.recipe("broken", 'x = "\x1b]0;pwned\x07\n::set-output name=pwned::1\n##[group]pwned')
    s.recipe("deep", "x = " + "[" * 5000)
    s.recipe("digits", f"x = {'9' * 5000}")
    s.recipe(
        "doubling", "[variables]\n" + "".join(f'A{n} = "${{A{n + 1}}}${{A{n + 1}}}"\n' for n in range(26)) + 'A26 = "x"'
    )
    s.recipe("stars", '[builder]\nbase = "debian"\n[test]\nfiles = ["' + "*a" * 2000 + '"]')
    s.recipe("axes", "[matrix]\n" + "".join(f"a{n} = {list(map(str, range(10)))}\n" for n in range(12)))
