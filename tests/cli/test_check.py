"""`check` as a CI job types it: exit codes, files, formats."""

import json
from pathlib import Path

import pytest

from recompile_doctor.__main__ import main

SCENARIOS = Path(__file__).parents[2] / "fixtures" / "scenarios" / "2.13.0"
RUN = str(SCENARIOS / "zero_one" / "trace")
BETTER = str(SCENARIOS / "unbacked_env_dim" / "trace")
TIGHT = "total:\n  recompiles: 1\n"
FORMATS = ("terminal", "json", "markdown", "github", "sarif", "junit")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    return tmp_path


def write(project: Path, text: str, name: str = "recompile-budget.yaml") -> None:
    (project / name).write_text(text, "utf-8")


def test_a_run_within_its_budget_is_0_and_one_over_it_is_1(project: Path) -> None:
    write(project, "total: {recompiles: 2}\n")
    assert main(["check", RUN]) == 0
    write(project, TIGHT)
    assert main(["check", RUN]) == 1


def test_without_a_budget_there_is_nothing_to_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", RUN]) == 3
    assert "no-budget" in capsys.readouterr().err


def test_a_budget_that_is_named_must_be_there(project: Path) -> None:
    assert main(["check", RUN, "--budget", "other.yaml", "--baseline", RUN]) == 3


def test_a_mistake_in_the_budget_is_an_error_with_its_line(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "total:\n  recompile: 1\n")
    assert main(["check", RUN]) == 3
    error = capsys.readouterr().err
    assert "recompile-budget.yaml:2: there is no setting 'recompile' here." in error
    assert "hint: Did you mean recompiles?" in error


def test_the_budget_can_stand_in_pyproject_toml(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        project,
        "[tool.recompile-doctor.budget]\ntotal.recompiles = 1\n\n"
        "[[tool.recompile-doctor.budget.allow]]\nid = 'other'\nreason = 'a'\nuntil = 2020-01-01\n",
        "pyproject.toml",
    )
    assert main(["check", RUN]) == 1
    out = capsys.readouterr().out
    assert "2 recompiles, at most 1 allowed (pyproject.toml:2)" in out
    assert "pyproject.toml:4: nothing in this run needs the allowance" in out


def test_the_settings_can_name_the_file_of_the_budget(project: Path) -> None:
    (project / "ci").mkdir()
    write(project, "budget_file: ci/budget.yaml\n", "recompile-doctor.yaml")
    write(project, TIGHT, "ci/budget.yaml")
    assert main(["check", RUN]) == 1


def test_a_baseline_is_enough() -> None:
    assert main(["check", BETTER, "--baseline", BETTER]) == 0
    assert main(["check", RUN, "--baseline", RUN]) == 0


def test_what_is_new_since_the_baseline_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", RUN, "--baseline", BETTER]) == 1
    assert "new since the baseline" in capsys.readouterr().out


@pytest.mark.parametrize("format_", FORMATS)
def test_each_format_can_be_written_to_a_file(format_: str, project: Path) -> None:
    """The results of SARIF say what failed; its readers take a status of 1 for a broken tool."""
    write(project, TIGHT)
    status = main(["check", RUN, "--format", format_, "--output", "out"])
    assert status == (0 if format_ == "sarif" else 1)
    assert "at most 1 allowed" in (project / "out").read_text("utf-8")


def test_the_page_of_a_github_job_gets_the_report(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, TIGHT)
    (project / "summary.md").write_text("earlier\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "summary.md"))
    main(["check", RUN, "--format", "github"])
    text = (project / "summary.md").read_text("utf-8")
    assert text.startswith("earlier\n<!-- recompile-doctor: check -->\n")


def test_a_first_budget_is_written_and_holds(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", RUN, "--update-budget"]) == 0
    assert "recompile-budget.yaml written" in capsys.readouterr().err
    assert main(["check", RUN]) == 0
    assert main(["check", RUN, "--baseline", BETTER]) == 1


def test_the_ratchet_lowers_and_does_not_raise(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# ours\ntotal:\n  recompiles: 7   # since March\n  graph_breaks: 0\n"
    write(project, text)
    assert main(["check", RUN, "--update-budget"]) == 0
    lower = text.replace("7", "2")
    assert (project / "recompile-budget.yaml").read_text("utf-8") == lower
    assert "recompiles: 7 -> 2" in capsys.readouterr().err
    assert main(["check", BETTER, "--update-budget"]) == 0
    lowest = text.replace("7", "0")
    assert (project / "recompile-budget.yaml").read_text("utf-8") == lowest
    assert main(["check", RUN, "--update-budget"]) == 1
    assert (project / "recompile-budget.yaml").read_text("utf-8") == lowest
    assert main(["check", RUN, "--update-budget", "--loosen"]) == 0
    assert (project / "recompile-budget.yaml").read_text("utf-8") == lower


def test_a_run_that_proves_nothing_sets_no_numbers(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, TIGHT)
    log = project / "empty.log"
    log.write_text("V0712 09:30:15.123000 77 torch/_logging/_internal.py:1 [__x] nothing\n")
    assert main(["check", str(log)]) == 1
    assert main(["check", str(log), "--update-budget"]) == 3
    assert "run-not-plausible" in capsys.readouterr().err
    assert (project / "recompile-budget.yaml").read_text("utf-8") == TIGHT


def test_a_budget_in_pyproject_toml_is_not_rewritten(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "[tool.recompile-doctor.budget]\ntotal.recompiles = 9\n", "pyproject.toml")
    assert main(["check", RUN, "--update-budget"]) == 3
    assert "budget-not-rewritten" in capsys.readouterr().err


def test_loosen_alone_is_wrong_usage() -> None:
    assert main(["check", RUN, "--loosen"]) == 2


def test_a_json_report_is_checked_as_its_run_is(
    project: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    main(["analyze", RUN, "--format", "json", "--output", "run.json"])
    write(project, TIGHT)
    capsysbinary.readouterr()
    results = []
    for target in (RUN, "run.json"):
        assert main(["check", target, "--format", "json"]) == 1
        results.append(json.loads(capsysbinary.readouterr().out))
        del results[-1]["subject"]
    assert results[0] == results[1]


@pytest.mark.parametrize("words", [["--budget", "b.yaml"], ["--baseline", "main"]])
def test_run_takes_a_budget_only_with_check(words: list[str], project: Path) -> None:
    write(project, "", "program.py")
    assert main(["run", *words, "program.py"]) == 2


def test_run_finds_a_mistake_in_the_budget_before_it_starts_the_program(project: Path) -> None:
    write(project, "from pathlib import Path; Path('started').touch()\n", "program.py")
    write(project, "limits: {}\n")
    assert main(["run", "--check", "program.py"]) == 3
    assert not (project / "started").exists()


def test_run_and_check_of_a_program_that_compiles_nothing_fail(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(project, "print('hello')\n", "program.py")
    write(project, TIGHT)
    assert main(["run", "--check", "program.py"]) == 1
    assert "the run proves nothing" in capfd.readouterr().out


def test_the_programs_own_status_comes_first(project: Path) -> None:
    write(project, "raise SystemExit(5)\n", "program.py")
    write(project, TIGHT)
    assert main(["run", "--check", "program.py"]) == 5
