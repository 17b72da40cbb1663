import Config

config :fraud, dir: "data", rules: "fraud.rules", clock: :system

# The times of facts move the clock of a test.
if config_env() == :test do
  config :fraud, dir: Path.join(System.tmp_dir!(), "fraud_test_#{System.pid()}"), clock: :facts
  config :logger, level: :error
end
