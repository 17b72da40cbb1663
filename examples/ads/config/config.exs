import Config

config :ads,
  port: String.to_integer(System.get_env("PORT", "4000")),
  dir: "data",
  # Milliseconds.
  bid_timeout: 50,
  # Add an attribute here and start again: the server moves its campaigns to the new schema.
  schema: [
    country: :string,
    age: {:integer, optional: true, min: 0, max: 120},
    interests: {:string_list, optional: true}
  ]

# Port 0 is any free port. A busy machine may take long for a bid.
if config_env() == :test do
  config :ads, port: 0, bid_timeout: :infinity, dir: Path.join(System.tmp_dir!(), "ads_test_#{System.pid()}")
  config :logger, level: :warning
end
