from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.errors import UsageError
from diagnostics.settings.load import Loaded, load

FILE = """
[collect]
interval = "30s"

[web]
listen_address = "127.0.0.1:9999"
allowed_hosts = ["diag.example"]

[[server]]
url = "http://a:8000"

[[server]]
url = "http://b:8000"
interval = "5s"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    written = tmp_path / "diag.toml"
    written.write_text(FILE)
    return written


def origins(loaded: Loaded) -> dict[str, tuple[str, str]]:
    return {name: (value, origin) for name, value, origin in loaded.lines()}


def refused(text: str, tmp_path: Path, **environment: str) -> str:
    written = tmp_path / "diag.toml"
    written.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(written, environment, {})
    return str(caught.value).replace(str(tmp_path), "")


def test_a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default(file: Path):
    environment = {"DIAG_COLLECT__INTERVAL": "20s", "DIAG_WEB__LISTEN_ADDRESS": "127.0.0.1:1111", "DIAG_OTHER": "x"}
    loaded = load(file, environment, {"web.listen_address": "127.0.0.1:2222"})
    reported = origins(loaded)
    assert reported["web.listen_address"] == ("127.0.0.1:2222", "--web.listen-address")
    assert origins(load(file, {}, {"web.config_file": "web.yml"}))["web.config_file"][1] == "--web.config.file"
    assert reported["collect.interval"] == ("20s", "DIAG_COLLECT__INTERVAL")
    assert reported["server.1.interval"] == ("5s", f"{file}:14")
    assert reported["collect.window"] == ("5m", "default")
    assert loaded.settings.collect.interval == 20.0


def test_servers_of_the_command_line_come_to_those_of_the_file(file: Path):
    loaded = load(file, {}, {}, ["http://c:8000", "http://a:8000", "http://c:8000"])
    assert [one.url for one in loaded.settings.server] == ["http://a:8000", "http://b:8000", "http://c:8000"]
    assert origins(loaded)["server.2.url"] == ("http://c:8000", "command line")


def test_lists_are_written_with_commas_in_the_environment():
    loaded = load(None, {"DIAG_ALERTMANAGER__URLS": "http://a:9093, http://b:9093"}, {})
    assert loaded.settings.alertmanager.urls == ("http://a:9093", "http://b:9093")


def test_a_check_refuses_a_directory_that_cannot_be_made_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, blocked = tmp_path / "diag.toml", tmp_path / "file"
    blocked.touch()
    codes = []
    for directory in (blocked / "history", tmp_path / "new" / "history"):
        file.write_text(f"[history]\ndirectory = '{directory}'\n[[server]]\nurl = 'http://127.0.0.1:1'\n")
        codes.append(main(["serve", "--config.file", str(file), "--check-config"]))

    assert codes == [3, 0]
    assert f"{blocked}/history: cannot be made: " in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [file, blocked]


def test_every_mistake_of_a_file_is_named_and_what_was_meant(tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    server = "[[server]]\nurl = 'http://a'\nrepositry = '/m'\n"
    file.write_text(f"{server}[alertmanagers]\nx = 1\n[collect]\ninterval = 'soon'\n")

    with pytest.raises(UsageError) as wrong:
        load(file, {}, {})
    text = str(wrong.value)
    assert "diag.toml:3: server.0.repositry: there is no such setting; did you mean repository? settings of" in text
    assert "alertmanagers: there is no such setting" in text
    assert "diag.toml:7: collect.interval: 'soon' is not a duration" in text


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("[collect]\ninterva = '5s'", "/diag.toml:2: collect.interva: there is no such setting"),
        ("[colect]\ninterval = '5s'", "/diag.toml:2: colect: there is no such setting"),
        ("[collect]\ninterval = 'soon'", "/diag.toml:2: collect.interval: 'soon' is not a duration such as"),
        ("[collect]\n\ninterval = 0.01", "/diag.toml:3: collect.interval: input should be greater than"),
        ("[history]\nkeep_raw_bytes = '9 apples'", "/diag.toml:2: history.keep_raw_bytes: '9 apples' is not a size"),
        ("[[server]]\nurl='a'\n[[server]]\nname='b'", "/diag.toml:4: server.1.name: there is no such setting"),
        ("[[server]]\ninsecure = true", "/diag.toml:2: server.0.url: field required"),
        ("[fleet]\nworkers = true", "/diag.toml:2: fleet.workers: cannot be true or false"),
        ("[[slo]]\nname='a'\nobjective='99%'", "/diag.toml:3: slo.0.objective: '99%' is no number: write 99 % as 0.99"),
        ("[[deployment]]\nname='a b'\nservers=['x']", "/diag.toml:2: deployment.0.name: cannot be a name: leave"),
        ('[[deployment]]\nname="a\\u001b[31m"\nservers=["x"]', "/diag.toml:2: deployment.0.name: cannot be a name"),
        ("server = 'http://a:8000'", "/diag.toml:1: server: is a list: write values as ['…'], and sections as [[…]]"),
        ("[[deployment]]\nname='a'\nservers=[]", "/diag.toml:3: deployment.0.servers: is empty: name at least one"),
        ("[alertmanager]\nlabels=['x']", "/diag.toml:2: alertmanager.labels: is a table, as in { name = 'value' }"),
        ("[history]\ndirectory=7", "/diag.toml:2: history.directory: is no path"),
        ('[history]\ndirectory="a\\u0000"', "/diag.toml:2: history.directory: holds a null character"),
        ("[history]\nkeep_raw='99999999999d'", "/diag.toml:2: history.keep_raw: is longer than 100 years"),
        ("[collect]\ntimeout='2h'", "/diag.toml:2: collect.timeout: input should be less than or equal to 3600"),
        (
            "[[webhook]]\nurl='http://u:p@h'",
            "/diag.toml:2: webhook.0.url: holds credentials, which an address",
        ),
        ("[web]\nexternal_url='http://u:p@h'", "/diag.toml:2: web.external_url: holds credentials, which an address"),
        ("[discovery]\ngroup_by='x'\n[[discovery.file]]\n", "/diag.toml:3: discovery.file.0.files: field required"),
        (
            "[[discovery.file]]\nfiles=['a']\n[[discovery.file]]\nfiles=[]",
            "/diag.toml:4: discovery.file.1.files: is empty: name at least one",
        ),
        ("[[discovery.http]]\nurl='http://u:p@h'", "/diag.toml:2: discovery.http.0.url: holds credentials, which an"),
        ("[collect", "/diag.toml: is not TOML: "),
        ("web = 3", "/diag.toml:1: web: is a section with keys, not a value"),
        ("[collect]\nwindow = '2h'", "/diag.toml:2: collect.window: input should be less than or equal to 3600"),
    ],
)
def test_what_cannot_be_used_is_reported_with_its_line(text: str, stated: str, tmp_path: Path):
    assert refused(text, tmp_path).startswith(stated)


def test_a_wrong_variable_is_named(tmp_path: Path):
    stated = refused("", tmp_path, DIAG_COLLECT__INTERVALL="5s")
    assert stated.startswith("DIAG_COLLECT__INTERVALL: there is no setting 'intervall'")
    assert refused("", tmp_path, DIAG_SERVER__URL="x").startswith("DIAG_SERVER__URL: only values in single sections")
    assert "DIAG_COLLECT__INTERVAL: collect.interval" in refused("", tmp_path, DIAG_COLLECT__INTERVAL="x")


@pytest.mark.parametrize("key", ["url", "metrics_url", "grpc_url", "dcgm_url"])
def test_a_password_in_an_address_is_refused_and_not_shown(key: str, tmp_path: Path):
    stated = refused(
        f"[[server]]\nurl = 'http://a:8000'\n{key} = 'http://user:hunter22@a:8000'".replace(
            "url = 'http://a:8000'\nurl", "url"
        ),
        tmp_path,
    )
    assert "holds credentials" in stated
    assert "basic_auth_file" in stated
    assert "hunter22" not in stated


def test_a_byte_order_mark_is_no_part_of_the_settings(tmp_path: Path):
    (tmp_path / "diag.toml").write_bytes(b'\xef\xbb\xbf[log]\nlevel = "warn"\n')
    assert load(tmp_path / "diag.toml", {}, {}).settings.log.level == "warn"


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        load(tmp_path / "gone.toml", {}, {})
    (tmp_path / "latin.toml").write_bytes(b"# \xe9")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        load(tmp_path / "latin.toml", {}, {})


def test_check_config_prints_every_value_with_its_origin(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DIAG_HISTORY__DATABASE", "postgresql://diag:hunter22@db/diag")
    assert main(["serve", "--config.file", str(file), "--check-config", "--log.level", "debug"]) == 0
    lines = [line.split("  # ") for line in capsys.readouterr().out.splitlines()]
    reported = {setting.strip(): origin for setting, origin in lines}
    assert reported["collect.interval = 30s"] == f"{file}:3"
    assert reported["log.level = debug"] == "--log.level"
    assert reported["history.database = postgresql://[REDACTED]@db/diag"] == "DIAG_HISTORY__DATABASE"
    assert reported["incidents.open_after = 2"] == "default"


def test_check_config_says_in_one_line_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    token = tmp_path / "token"
    written = tmp_path / "diag.toml"
    written.write_text(f"[[server]]\nurl = 'http://a:8000'\nbearer_token_file = '{token}'\n")
    assert main(["serve", "--config.file", str(written), "--check-config"]) == 2
    stated = capsys.readouterr()
    assert stated.out == ""
    assert stated.err == f"diag: {token}: cannot read the bearer token: no such file or directory\n"


@pytest.mark.parametrize(
    ("setting", "stated"),
    [
        ("repository = 'gone'", "gone: does not exist; look at the repository of http://a:8000"),
        ("repository = '.'", ".: holds no <model>/config.pbtxt: not a model repository; look at the repository of"),
        (
            "[history]\ndatabase = 'mysql://db/diag'",
            "history.database: mysql is not supported; use sqlite or postgresql",
        ),
        ("[history]\ndatabase = 'postgres'", "history.database: is no database URL"),
        ("[history]\ndatabase_password_file = 'gone'", "gone: cannot read the database's password: no such file"),
        ("bearer_token_file = '/dev/zero'", "/dev/zero: the bearer token is larger than 64 KiB"),
        ("[web]\nconfig_file = '/dev/zero'", "/dev/zero: is larger than 1 MiB"),
        ("[alertmanager]\nurls = ['a']", "alertmanager.urls: is no address of HTTP; write http://host:port"),
        ("[[server]]\nurl = ''", "'': names no host; give"),
        (
            "[[deployment]]\nname='chat'\nservers=['http://a:8000']\nobjective='fast'",
            "deployment chat: cannot read objective 'fast'; write it like",
        ),
        ("[otlp]\ngrpc_listen_address='127.0.0.1:9177'", "otlp.grpc_listen_address: 127.0.0.1:9177 is taken by web."),
    ],
)
def test_check_config_refuses_places_that_are_none(
    setting: str, stated: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("diag.toml").write_text(f"[[server]]\nurl = 'http://a:8000'\n{setting}\n")
    assert main(["serve", "--config.file", "diag.toml", "--check-config"]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith(f"diag: {stated}")
    assert reported.count("\n") == 1


def test_without_a_server_there_is_nothing_to_serve(capsys: pytest.CaptureFixture[str]):
    assert main(["serve"]) == 2
    assert "there is no server to watch" in capsys.readouterr().err
