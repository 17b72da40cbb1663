CREATE TABLE subscriptions (
  id bigint PRIMARY KEY,
  expression text NOT NULL
);

-- A notification has only the id: the listener reads the row again, so the order of notifications does not matter.
CREATE FUNCTION notify_subscription() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN
    PERFORM pg_notify('subscriptions', OLD.id::text);
  END IF;
  IF TG_OP <> 'DELETE' THEN
    PERFORM pg_notify('subscriptions', NEW.id::text);
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER subscriptions_notify AFTER INSERT OR UPDATE OR DELETE ON subscriptions
  FOR EACH ROW EXECUTE FUNCTION notify_subscription();
