"""Settings: where they are found, what is refused and where, and that options win over them."""

import json
import re
from pathlib import Path

import click
import pytest

from recompile_doctor.cli.main import cli
from recompile_doctor.config import OPTIONS, Config, find_config
from recompile_doctor.errors import DoctorError
from recompile_doctor.verification.budget import read_budget

TOML = """\
[project]
name = "mine"

[tool.recompile-doctor]
budget_file = "ci/budget.yaml"

[tool.recompile-doctor.check]
format = "junit"
"""


def write(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_nothing_is_set(tmp_path: Path) -> None:
    assert find_config(tmp_path) == Config()


def test_the_table_of_a_pyproject_above_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, "pyproject.toml", TOML)
    (tmp_path / "a" / "b").mkdir(parents=True)
    config = find_config(tmp_path / "a" / "b")
    assert config.path == path
    assert config.options == {"check": {"format": "junit"}}
    assert config.budget_file == tmp_path / "ci" / "budget.yaml"


def test_the_nearest_file_counts_and_the_yaml_file_before_the_toml_file(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", TOML)
    write(tmp_path / "a", "pyproject.toml", TOML)
    near = write(tmp_path / "a", "recompile-doctor.yaml", "run: {quiet: true}\n")
    write(tmp_path / "a" / "b", "pyproject.toml", "[project]\nname = 'other'\n")
    config = find_config(tmp_path / "a" / "b")
    assert config.path == near
    assert config.options == {"run": {"quiet": True}}


def test_a_broken_pyproject_of_others_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, "pyproject.toml", "not toml at all [")
    assert find_config(tmp_path) == Config()


def test_a_baseline_is_seen_from_its_file_when_it_is_there(tmp_path: Path) -> None:
    write(tmp_path, "recompile-doctor.yaml", "check: {baseline: main.json}\n")
    assert find_config(tmp_path).options["check"]["baseline"] == "main.json"
    main = write(tmp_path, "main.json", "{}")
    assert find_config(tmp_path).options["check"]["baseline"] == str(main)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "pyproject.toml",
            "[tool.recompile-doctor]\n\nbudget-file = 'x'\n",
            "pyproject.toml:3: there is no setting 'budget-file' here.",
        ),
        (
            "pyproject.toml",
            "[tool.recompile-doctor.check]\nformat = 'xml'\n",
            "pyproject.toml:2: format is one of terminal, json, markdown, github, sarif, junit.",
        ),
        (
            "pyproject.toml",
            "[tool.recompile-doctor.run]\nformat = 'json'\nuse_caches = 'yes'\n",
            "pyproject.toml:3: use_caches must be true or false, not a text.",
        ),
        (
            "pyproject.toml",
            "[tool.recompile-doctor]\nrun = {quiet = 1}\n",
            "pyproject.toml:2: quiet must be true or false, not a whole number.",
        ),
        (
            "pyproject.toml",
            "[tool.recompile-doctor]\nbudget_file = 'x'\n[tool.recompile-doctor.budget]\n",
            "pyproject.toml:3: give either budget or budget_file, not both.",
        ),
        (
            "recompile-doctor.yaml",
            "run:\n  quiet: true\n  colour: false\n",
            "recompile-doctor.yaml:3: there is no setting 'colour' here.",
        ),
        (
            "recompile-doctor.yaml",
            "\nbudget_file: 3\n",
            "recompile-doctor.yaml:2: budget_file must be the name of a file.",
        ),
        (
            "recompile-doctor.yaml",
            "budget: 3\n",
            "recompile-doctor.yaml:1: budget must be a table of settings.",
        ),
    ],
)
def test_mistakes_are_told_with_file_and_line(
    name: str, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, name, text)
    with pytest.raises(DoctorError) as caught:
        find_config(tmp_path)
    assert caught.value.message == message


def test_a_near_miss_is_suggested(tmp_path: Path) -> None:
    write(tmp_path, "recompile-doctor.yaml", "budget-file: x\n")
    with pytest.raises(DoctorError) as caught:
        find_config(tmp_path)
    assert caught.value.hint == "Did you mean budget_file?"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: [", b"x" * 1_000_001])
def test_a_file_that_cannot_be_read_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "recompile-doctor.yaml").write_bytes(content)
    with pytest.raises(DoctorError) as caught:
        find_config(tmp_path)
    assert caught.value.slug == "settings-unreadable"


@pytest.mark.parametrize("command", OPTIONS)
def test_each_setting_is_an_option_of_its_command(command: str) -> None:
    """Of the same type and with the same words."""
    group = cli
    found = group.get_command(click.Context(group), command)
    assert found is not None
    options = {
        each.opts[0].removeprefix("--").replace("-", "_"): each
        for each in found.params
        if isinstance(each, click.Option)
    }
    for key, wanted in OPTIONS[command].items():
        option = options[key]
        if isinstance(wanted, tuple):
            assert isinstance(option.type, click.Choice)
            assert tuple(option.type.choices) == wanted
        else:
            assert option.is_flag is (wanted is bool)


def test_settings_are_defaults_and_options_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    log = Path(__file__).parents[1] / "fixtures/scenarios/2.13.0/zero_one/dynamic.log.gz"
    write(tmp_path, "pyproject.toml", "[tool.recompile-doctor.analyze]\nformat = 'json'\n")
    monkeypatch.chdir(tmp_path)
    cli.main(["analyze", str(log)], standalone_mode=False)
    assert json.loads(capsysbinary.readouterr().out)["summary"]["recompiles"] == 3
    cli.main(["analyze", str(log), "--format", "markdown"], standalone_mode=False)
    assert capsysbinary.readouterr().out.startswith(b"### ")


def test_the_page_on_settings_is_true(tmp_path: Path) -> None:
    """Its examples can be read and say the same, and its table lists all keys."""
    page = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text("utf-8")
    toml, inline = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (text,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    write(tmp_path / "toml", "pyproject.toml", toml)
    write(tmp_path / "yaml", "recompile-doctor.yaml", text)
    first, second = find_config(tmp_path / "toml"), find_config(tmp_path / "yaml")
    assert first.options == second.options
    write(tmp_path / "inline", "pyproject.toml", inline)
    budget = find_config(tmp_path / "inline").budget
    assert budget is not None
    assert [each.place and each.place.line for each in read_budget(budget).limits] == [2, 2, 5]
    listed = set(re.findall(r"`(\w+\.\w+)`", "".join(re.findall(r"(?m)^\| (.*?) \|", page))))
    assert listed == {f"{command}.{key}" for command, keys in OPTIONS.items() for key in keys}
