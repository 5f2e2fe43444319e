package session

import (
	"context"
	_ "embed" // the text that the model reads
	"fmt"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed kv_store.md
var valueText string

// valueArgs are the arguments of kv_store.
type valueArgs struct {
	Operation string  `json:"operation" enum:"set,get,delete,list"`
	Key       string  `json:"key,omitempty" minLength:"1" jsonschema:"The key of the value; not for list"`
	Value     *string `json:"value" jsonschema:"The value to store; only for set"`
}

// The results of kv_store.
type (
	valueSet struct {
		Key string `json:"key"`
		Set bool   `json:"set"`
	}
	valueGot struct {
		Key   string  `json:"key"`
		Found bool    `json:"found"`
		Value *string `json:"value,omitempty"`
	}
	valueGone struct {
		Key     string `json:"key"`
		Deleted bool   `json:"deleted"`
	}
	valueList struct {
		Keys []tool.KeyStat `json:"keys"`
	}
)

// ValueStore returns the tool kv_store.
func ValueStore() tool.Tool {
	yes, no := true, false
	return tool.New(tool.Spec{
		Name:          valueName,
		DisplayName:   "Key-Value Store",
		Narration:     tool.Narration{Started: "Value store, {operation}[ {key}]", Completed: "Value store, {operation}[ {key}]", Failed: "Could not {operation} the value[ {key}]"},
		Description:   strings.TrimSpace(valueText),
		Class:         perdure.Idempotent, // the same call writes the same value again
		SessionOnly:   true,
		Concurrency:   storageConcurrency,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Hints:         tool.Hints{ReadOnly: &no, Idempotent: &yes, CapabilityID: StorageCapability},
	}, runValueStore)
}

func runValueStore(ctx context.Context, in valueArgs, env tool.Env) (tool.Result, error) {
	if env.Values == nil {
		return tool.Missing(storage, valueName+" requires the storage of a session."), nil
	}
	if in.Operation == "list" {
		keys, err := env.Values.Keys(ctx)
		if err != nil {
			return portError(ctx, err), nil
		}
		return tool.Success(valueList{Keys: append([]tool.KeyStat{}, keys...)}), nil
	}
	if r := missingArgument(in.Operation, "key", in.Key != ""); r != nil {
		return *r, nil
	}
	switch in.Operation {
	case "get":
		text, ok, err := env.Values.Value(ctx, in.Key)
		if err != nil {
			return portError(ctx, err), nil
		}
		got := valueGot{Key: in.Key, Found: ok}
		if ok {
			got.Value = &text
		}
		return tool.Success(got), nil
	case "set":
		if r := missingArgument(in.Operation, "value", in.Value != nil); r != nil {
			return *r, nil
		}
	}
	if env.DryRun { // AP13
		return tool.Success(fmt.Sprintf("[dry-run] Would %s the value %q.", in.Operation, in.Key)), nil
	}
	if in.Operation == "delete" {
		existed, err := env.Values.RemoveValue(ctx, in.Key)
		if err != nil {
			return portError(ctx, err), nil
		}
		return tool.Success(valueGone{Key: in.Key, Deleted: existed}), nil
	}
	if err := env.Values.SetValue(ctx, in.Key, *in.Value); err != nil {
		return portError(ctx, err), nil
	}
	return tool.Success(valueSet{Key: in.Key, Set: true}), nil
}
