package betree

import "encoding/binary"

// Tags of the Erlang external term format.
const (
	tagVersion      = 131
	tagSmallInteger = 97
	tagInteger      = 98
	tagSmallTuple   = 104
	tagBinary       = 109
	tagSmallAtom    = 119
)

// decodeError reads the term {Kind, Message, Attribute, Column, Position}, in which the atom nil stands for nothing.
func decodeError(term []byte) *Error {
	reader := termReader{rest: term}
	reader.expect(tagVersion, tagSmallTuple, 5)
	failure := &Error{Kind: Kind(reader.atom())}
	failure.Message = reader.optionalBinary()
	failure.Attribute = reader.optionalBinary()
	failure.Column = reader.optionalInteger()
	if reader.isBroken {
		return refused(Trap, "the image returned an error that cannot be read")
	}
	return failure
}

// termReader reads terms one after the other. After the first fault it returns zero values.
type termReader struct {
	rest     []byte
	isBroken bool
}

func (r *termReader) take(length int) []byte {
	if r.isBroken || length < 0 || length > len(r.rest) {
		r.isBroken = true
		return nil
	}
	taken := r.rest[:length]
	r.rest = r.rest[length:]
	return taken
}

func (r *termReader) byte() byte {
	if taken := r.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (r *termReader) word() uint32 {
	if taken := r.take(4); taken != nil {
		return binary.BigEndian.Uint32(taken)
	}
	return 0
}

func (r *termReader) expect(bytes ...byte) {
	for _, expected := range bytes {
		if r.byte() != expected {
			r.isBroken = true
		}
	}
}

func (r *termReader) isNext(tag byte) bool { return len(r.rest) > 0 && r.rest[0] == tag }

func (r *termReader) atom() string {
	r.expect(tagSmallAtom)
	return string(r.take(int(r.byte())))
}

func (r *termReader) optionalBinary() string {
	if !r.isNext(tagBinary) {
		r.atom()
		return ""
	}
	r.expect(tagBinary)
	return string(r.take(int(r.word())))
}

func (r *termReader) optionalInteger() int {
	switch {
	case r.isNext(tagSmallInteger):
		r.expect(tagSmallInteger)
		return int(r.byte())
	case r.isNext(tagInteger):
		r.expect(tagInteger)
		return int(r.word())
	default:
		r.atom()
		return 0
	}
}
