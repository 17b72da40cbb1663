import Config

config :router,
  port: String.to_integer(System.get_env("PORT", "4001")),
  # The number of alerts that may wait for a subscriber.
  limit: 1_000,
  schema: [
    severity: {:integer, min: 0, max: 5},
    service: {:string, optional: true},
    host: {:string, optional: true},
    region: {:string, optional: true},
    message: {:string, optional: true},
    tags: {:string_list, optional: true},
    maintenance: {:boolean, optional: true}
  ]

# Port 0 is any free port.
if config_env() == :test do
  config :router, port: 0
  config :logger, level: :warning
end
