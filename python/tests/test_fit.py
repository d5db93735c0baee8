"""Fits from Python."""

import flashlab
import pytest


def test_a_fit_is_that_of_the_command_line(cli, cli_json):
    arguments = ["sd-cards:kingston", "--base", "sd/kingston", "--number", "flash.t_prog", "--step", "raw write 1M"]
    fit = flashlab.fit(
        "sd-cards:kingston", base="sd/kingston", numbers=["flash.t_prog"], steps=["raw write 1M"]
    )
    assert fit.to_dict() == cli_json("fit", *arguments, "--format", "json")
    assert "t_prog" in fit.table()
    assert fit.html().startswith("<!DOCTYPE html>")


def test_a_fitted_profile_opens(tmp_path):
    fit = flashlab.fit("sd-cards:kingston", numbers=["flash.t_prog"], steps=["raw write 1M"])
    path = tmp_path / "mine.toml"
    path.write_text(fit.profile(name="My card"))
    assert "My card" in flashlab.Device(str(path)).title
    with pytest.raises(flashlab.Error, match="1 cards"):
        fit.profile(1)


@pytest.mark.parametrize(
    "measurements", [["missing.json"], ["sd-cards:kingson"], ["experiment:x"]]
)
def test_errors_have_the_texts_of_the_command_line(cli, measurements):
    with pytest.raises(flashlab.Error) as caught:
        flashlab.fit(*measurements)
    assert cli("fit", *measurements) == f"flashlab: {caught.value}\n"
    with pytest.raises(flashlab.Error, match="no measurements"):
        flashlab.fit()
    with pytest.raises(flashlab.Error, match="floor=0"):
        flashlab.fit("sd-cards:kingston", floor=0)
