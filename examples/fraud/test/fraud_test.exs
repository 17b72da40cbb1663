defmodule FraudTest do
  use ExUnit.Case

  alias BeTree.Rules.Server

  @minute 60_000

  # Each test begins with an empty folder.
  setup do
    :ok = Application.stop(:fraud)
    File.rm_rf!(Application.fetch_env!(:fraud, :dir))
    File.mkdir_p!(Application.fetch_env!(:fraud, :dir))
    :ok = Application.start(:fraud)
  end

  defp cases, do: for(found <- Fraud.cases(), do: {found.number, found.kind, found.user})

  defp attack(user, device) do
    :ok = Fraud.login(user, false, at: 0)
    :ok = Fraud.login(user, false, at: 30_000)
    :ok = Fraud.change_password(user, device, at: 60_000)
  end

  test "two failed logins and a new password from an unknown device are a takeover" do
    :ok = Fraud.trust("ann's phone")
    attack("ann", "ann's phone")
    :ok = Fraud.login("bob", false, at: 60_000)
    :ok = Fraud.change_password("bob", "unknown", at: 61_000)
    assert cases() == []
    assert {:ok, [why]} = Fraud.why(:takeover)
    assert {why.verdict, why.by.fields["device"]} == {:blocked, "ann's phone"}

    # The phone is stolen.
    :ok = Fraud.distrust("ann's phone")
    assert cases() == [{1, "takeover", "ann"}]
  end

  test "a password change without a confirmation within ten minutes is a case" do
    :ok = Fraud.change_password("ann", "phone", at: 0)
    :ok = Fraud.change_password("bob", "laptop", at: 0)
    :ok = Fraud.confirm("ann", at: 5 * @minute)
    assert cases() == []
    {:ok, _page} = Server.advance(Fraud.Rules, 10 * @minute + 1)
    assert cases() == [{1, "unconfirmed", "bob"}]
  end

  test "facts, open windows and cases survive a restart, and no case is there twice" do
    attack("ann", "unknown")
    assert cases() == [{1, "takeover", "ann"}]
    :ok = Application.stop(:fraud)
    :ok = Application.start(:fraud)
    {:ok, _page} = Server.advance(Fraud.Rules, 11 * @minute)
    assert cases() == [{1, "takeover", "ann"}, {2, "unconfirmed", "ann"}]
  end

  test "a desk that was killed gets the cases that it missed" do
    desk = Process.whereis(Fraud.Desk)
    # The desk does not handle the notice before it is killed.
    :ok = :sys.suspend(desk)
    attack("ann", "unknown")
    monitor = Process.monitor(desk)
    Process.exit(desk, :kill)
    assert_receive {:DOWN, ^monitor, :process, ^desk, :killed}, 300_000
    wait(fn -> Process.whereis(Fraud.Desk) not in [nil, desk] end)
    wait(fn -> cases() == [{1, "takeover", "ann"}] end)
  end

  # Looks again until a condition holds. ExUnit ends the test after its timeout.
  defp wait(condition) do
    if not condition.() do
      Process.sleep(10)
      wait(condition)
    end
  end

  test "a reload takes changed rules, keeps the facts, and refuses wrong rules" do
    rules = Application.fetch_env!(:fraud, :rules)
    on_exit(fn -> Application.put_env(:fraud, :rules, rules) end)
    changed = Path.join(Application.fetch_env!(:fraud, :dir), "changed.rules")
    Application.put_env(:fraud, :rules, changed)

    File.write!(changed, "rule wrong when")
    assert {:error, %BeTree.Error{line: 1}} = Fraud.reload()

    :ok = Fraud.login("ann", false, at: 0)
    # One failed login is enough now.
    File.write!(
      changed,
      String.replace(File.read!(rules), ~r/^ +b: login.*\n/m, "") |> String.replace("after b", "after a")
    )

    assert Fraud.reload() == :ok
    :ok = Fraud.change_password("ann", "unknown", at: 1_000)
    assert cases() == [{1, "takeover", "ann"}]
  end
end
