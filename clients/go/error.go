package betree

import "fmt"

// Kind says what was wrong. BeTree's documentation of the interface (docs/contributing/abi.md) lists the kinds of a refused
// event; the constants are those that a program may want to tell apart.
type Kind string

const (
	// BadImage: the bytes are no image, or are damaged, or have another version.
	BadImage Kind = "bad_image"
	// OutOfMemory: the image or an event needs more memory than [Options] allows.
	OutOfMemory Kind = "out_of_memory"
	// Trap: the WebAssembly code failed. The instance was replaced.
	Trap Kind = "trap"
	// Syntax: the event is not a JSON object.
	Syntax Kind = "syntax"
	// Type: a value of the event has another type than its attribute.
	Type Kind = "type"
	// OutOfBounds: a number of the event needs more than 64 bits.
	OutOfBounds Kind = "out_of_bounds"
	// MissingAttribute: the event lacks an attribute that is not optional.
	MissingAttribute Kind = "missing_attribute"
)

// Error is a refusal. It changed nothing: the index can be searched again.
type Error struct {
	Kind Kind
	// Message says what is wrong and how to mend it.
	Message string
	// Attribute is the attribute of the event that is wrong, or "".
	Attribute string
	// Column is the character of the fault in the event, from 1, or 0.
	Column int

	cause error
}

func (e *Error) Error() string {
	if e.Column > 0 {
		return fmt.Sprintf("betree: %s: %s (column %d)", e.Kind, e.Message, e.Column)
	}
	return fmt.Sprintf("betree: %s: %s", e.Kind, e.Message)
}

// Unwrap returns the error of wazero behind a [Trap], or nil.
func (e *Error) Unwrap() error { return e.cause }

func refused(kind Kind, format string, values ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, values...)}
}
