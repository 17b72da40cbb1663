package betree

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/sys"
)

// Options bounds an index. The zero value is usable.
type Options struct {
	// Instances is the number of searches that run at the same time; more wait. Each instance has the whole memory of the
	// image. It is made when it is first needed. Defaults to 1.
	Instances int

	// Memory is the upper bound on the linear memory of an instance, in bytes. An image with more is refused, and so is an
	// event for which it does not suffice; a long string takes some four times its length. Defaults to the memory of the image
	// and 64 MiB.
	Memory uint64

	// NoTimeLimit lets a search run to its end even if its context ends. Then wazero compiles no checks into the loops, and
	// searches take a third to half of the time. Set it only if neither the expressions nor the events come from others.
	NoTimeLimit bool
}

const defaultGrowth = 64 << 20

// ErrClosed is the error of a search in an index that [Index.Close] has freed.
var ErrClosed = errors.New("betree: the index is closed")

// Index is a loaded image. Many goroutines may use it.
type Index struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	// slots holds one element for each instance that is not searching: the instance, or nil if it is yet to be made.
	slots    chan *instance
	isClosed atomic.Bool
}

// Load checks and compiles an image. That takes about a second; the index keeps no reference to the bytes.
//
// Errors are of type [*Error] with the kind [BadImage] or [OutOfMemory].
//
// The digest in an image proves its integrity, and not who wrote it. A forged image can return wrong ids and use up the
// memory and the time of its searches. It reaches nothing else.
func Load(ctx context.Context, image []byte, options Options) (*Index, error) {
	memory, failure := checkImage(image)
	if failure != nil {
		return nil, failure
	}
	limit := options.Memory
	if limit == 0 {
		limit = memory + defaultGrowth
	}
	if memory > limit {
		return nil, refused(OutOfMemory, "the image has %d bytes of memory; the limit, Options.Memory, is %d", memory, limit)
	}

	config := wazero.NewRuntimeConfig().
		WithCloseOnContextDone(!options.NoTimeLimit).
		WithMemoryLimitPages(uint32(min(limit, maxMemory) / pageBytes))
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	compiled, err := runtime.CompileModule(ctx, image)
	if err != nil {
		runtime.Close(ctx)
		return nil, &Error{Kind: BadImage, Message: err.Error(), cause: err}
	}

	index := &Index{runtime: runtime, compiled: compiled, slots: make(chan *instance, max(options.Instances, 1))}
	for range cap(index.slots) {
		index.slots <- nil
	}
	// An image whose exports are wrong is refused here, and not by the first search.
	first, err := index.instantiate(ctx)
	if err != nil {
		runtime.Close(ctx)
		return nil, err
	}
	<-index.slots
	index.slots <- first
	return index, nil
}

// Search returns the ids of the expressions that an event makes true, in ascending order. The event is the text of a JSON
// object.
//
// When the context ends, the search ends too, unless Options.NoTimeLimit is set, and Search returns ctx.Err(). The next search
// makes a new instance, which takes about as long as copying the image's memory.
//
// Other errors are of type [*Error]: a wrong event has the kind [Syntax], [Type], [OutOfBounds] or [MissingAttribute], an
// event that is too large [OutOfMemory] or [Trap].
func (x *Index) Search(ctx context.Context, event []byte) ([]uint64, error) {
	if x.isClosed.Load() {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var idle *instance
	select {
	case idle = <-x.slots:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ids, kept, err := x.searchWith(ctx, idle, event)
	x.slots <- kept
	return ids, err
}

// searchWith searches with an instance, or a new one, and returns the instance if it can be used again.
func (x *Index) searchWith(ctx context.Context, used *instance, event []byte) (ids []uint64, kept *instance, err error) {
	for {
		if used == nil {
			if used, err = x.instantiate(ctx); err != nil {
				return nil, nil, err
			}
		}
		ids, err = used.search(ctx, event)
		var refusal *Error
		if err == nil || errors.As(err, &refusal) {
			return ids, used, err
		}

		used.close()
		used = nil
		var exit *sys.ExitError
		switch {
		case x.isClosed.Load():
			return nil, nil, ErrClosed
		case ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case errors.As(err, &exit):
			// The context of an earlier search ended just after that search, and wazero closed the instance.
			continue
		default:
			message := "the search failed, perhaps for lack of memory; raise Options.Memory or send a smaller event"
			return nil, nil, &Error{Kind: Trap, Message: message, cause: err}
		}
	}
}

// Close frees the index. Searches that run then end, and return [ErrClosed], as later ones do.
func (x *Index) Close(ctx context.Context) error {
	x.isClosed.Store(true)
	return x.runtime.Close(ctx)
}
