defmodule BeTree.Rules.Server.State do
  @moduledoc false
  # The state of the process that owns an engine (BeTree.Rules.Server.Owner).

  alias BeTree.{Error, Rules}
  alias BeTree.Journal
  alias BeTree.Rules.Server.{Clock, Kept}

  @enforce_keys [:argument, :options, :number, :new, :max_firings, :rules, :text, :kept, :fired, :journal, :clock]
  defstruct @enforce_keys ++ [:timer, :next_due, :moved_to, :held, :undone]

  @typedoc """
    * `:argument` - that of the process's `init/1`; `:options`, `:new` - the options of the server and of its rules;
    * `:number` - that of the partition, or `nil` for a whole server;
    * `:max_firings` - the rules that an operation may fire;
    * `:rules`, `:text` - the engine and the text of its rules;
    * `:fired` - the number of firings of the rules;
    * `:kept` - the number of the last notice, and the notices for subscribers that ask for those they missed;
    * `:journal` - the owner's part of the journal, or `nil`;
    * `:undone` - the record of an operation that was undone, and the notices of a long advance that it does not undo, until the
      journal takes it;
    * `:clock` - the clock; `:timer` - a timer and the time at which it moves the engine's time; `:next_due` - when a window closes next;
    * `:moved_to` - the time of all partitions to which this one has moved last;
    * `:held` - the time at which an error holds the engine's time (`BeTree.Rules.Server.Time`), or `nil`.
  """
  @type t :: %__MODULE__{
          argument: tuple,
          options: map,
          number: non_neg_integer | nil,
          new: keyword,
          max_firings: pos_integer,
          rules: Rules.t(),
          text: String.t(),
          kept: Kept.t(),
          fired: non_neg_integer,
          journal: Journal.Owner.t() | nil,
          undone: {tuple, [Rules.Notice.t()]} | nil,
          clock: Clock.holder(),
          timer: {reference, Rules.time()} | nil,
          next_due: Rules.time() | nil,
          moved_to: Rules.time() | nil,
          held: held | nil
        }

  @typedoc """
  Time is held before `:at`. `:until` is the time that the clock has reached, `:error` the error of the event there, `:pause` the
  milliseconds until time tries again, and `:retry` the timer of that.
  """
  @type held :: %{
          at: Rules.time(),
          until: Rules.time(),
          error: Error.t(),
          pause: pos_integer,
          retry: reference | nil
        }
end
