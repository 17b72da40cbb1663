package betree

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// The format of an event that is a JSON object, the number that stands for all subscriptions, and the form of a result that is
// a list of ids (docs/contributing/abi.md of BeTree).
const (
	formatJSON = 1
	allIDs     = 0xFFFF_FFFF
	formIDs    = 0
)

// The first two numbers of a result count visited entries and evaluated expressions.
const countsInResult = 2

const (
	wordBytes = 8
	// The outbox has the address and the length of the result.
	outboxBytes = 8
)

var errOutside = errors.New("the image named a place outside its memory")

// instance is one copy of the image's memory, for one search at a time.
type instance struct {
	module api.Module
	memory api.Memory
	inbox  api.Function
	find   api.Function
	outbox uint32
}

func (x *Index) instantiate(ctx context.Context) (*instance, error) {
	// Without a name an image may have many instances. An image has no start function, and none of WASI's is called.
	config := wazero.NewModuleConfig().WithName("").WithStartFunctions()
	module, err := x.runtime.InstantiateModule(ctx, x.compiled, config)
	if err != nil {
		if x.isClosed.Load() {
			return nil, ErrClosed
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &Error{Kind: BadImage, Message: err.Error(), cause: err}
	}
	made := &instance{
		module: module,
		memory: module.Memory(),
		inbox:  module.ExportedFunction("be_tree_inbox"),
		find:   module.ExportedFunction("be_tree_search"),
	}
	outbox := module.ExportedFunction("be_tree_outbox")
	if made.memory == nil || made.inbox == nil || made.find == nil || outbox == nil {
		made.close()
		return nil, refused(BadImage, "the image lacks an export: memory, be_tree_inbox, be_tree_outbox or be_tree_search")
	}
	address, err := outbox.Call(ctx)
	if err != nil {
		made.close()
		return nil, &Error{Kind: BadImage, Message: err.Error(), cause: err}
	}
	made.outbox = uint32(address[0])
	return made, nil
}

// search returns an *Error if the event was refused. After any other error the instance cannot be used again.
func (i *instance) search(ctx context.Context, event []byte) ([]uint64, error) {
	if uint64(len(event)) >= maxMemory {
		return nil, tooLarge(event)
	}
	inbox, err := i.inbox.Call(ctx, uint64(len(event)))
	if err != nil {
		return nil, err
	}
	if inbox[0] == 0 {
		return nil, tooLarge(event)
	}
	if !i.memory.Write(uint32(inbox[0]), event) {
		return nil, errOutside
	}
	status, err := i.find.Call(ctx, formatJSON, uint64(len(event)), allIDs, formIDs)
	if err != nil {
		return nil, err
	}
	result, err := i.result()
	if err != nil {
		return nil, err
	}
	if status[0] != 0 {
		return nil, decodeError(result)
	}
	return ids(result), nil
}

// result returns a view of the result in the memory of the instance.
func (i *instance) result() ([]byte, error) {
	outbox, isThere := i.memory.Read(i.outbox, outboxBytes)
	if !isThere {
		return nil, errOutside
	}
	result, isThere := i.memory.Read(binary.LittleEndian.Uint32(outbox), binary.LittleEndian.Uint32(outbox[4:]))
	if !isThere {
		return nil, errOutside
	}
	return result, nil
}

func ids(result []byte) []uint64 {
	words := len(result) / wordBytes
	if words <= countsInResult {
		return nil
	}
	found := make([]uint64, words-countsInResult)
	for at := range found {
		found[at] = binary.LittleEndian.Uint64(result[(at+countsInResult)*wordBytes:])
	}
	return found
}

func tooLarge(event []byte) *Error {
	return refused(OutOfMemory, "the event has %d bytes, for which the memory does not suffice; raise Options.Memory", len(event))
}

// close frees the instance, which may have been closed already by wazero.
func (i *instance) close() { _ = i.module.Close(context.Background()) }
