package session

import (
	"bytes"
	"context"
	_ "embed" // the text that the model reads
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

//go:embed secret_store.md
var secretText string

// secretArgs are the arguments of secret_store.
type secretArgs struct {
	Operation string   `json:"operation" enum:"set,list,delete,get"`
	Name      string   `json:"name,omitempty" minLength:"1" jsonschema:"Of the secret; not for list"`
	Value     string   `json:"value,omitempty" minLength:"1" jsonschema:"The secret itself; for set only"`
	Hosts     []string `json:"hosts,omitempty" maxItems:"50" jsonschema:"Hosts that it may be sent to, such as api.example.com; for set only"`
}

// The answers of secret_store. None but the last has a value.
type (
	secretSet struct {
		Name string `json:"name"`
		Set  bool   `json:"set"`
	}
	secretGone struct {
		Name    string `json:"name"`
		Deleted bool   `json:"deleted"`
	}
	secretList struct {
		Secrets []tool.SecretStat `json:"secrets"`
	}
	secretHandle struct {
		tool.SecretStat
		Handle string `json:"handle"`
		Note   string `json:"note"`
	}
	secretShown struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// secretStore is the tool secret_store. It says of a call that shows a value what it wants to do, so that a policy and a
// person can judge it; and after a crash, whether a value was written.
type secretStore struct{ tool.Tool }

var (
	_ tool.Guarded    = secretStore{}
	_ tool.Reconciler = secretStore{}
)

// SecretStore returns the tool secret_store.
//
// A value that was not written before a crash is gone with the process that had it, so a call is not simply run again: its
// class is at_most_once, and Reconcile says whether it happened.
func SecretStore() tool.Tool {
	yes, no := true, false
	spec := tool.Spec{
		Name:        secretName,
		DisplayName: "Secret Store",
		Description: strings.TrimSpace(secretText),
		Class:       perdure.AtMostOnce,
		Concurrency: storageRow,
		NeedsEnv:    true,
		DryAware:    true,
		Hints:       tool.Hints{ReadOnly: &no, Idempotent: &no, RequiresSecrets: &yes, CapabilityID: StorageCapability},
	}
	spec.Parameters = writeOnly(tool.New(spec, keepSecret).Spec().Parameters, "value")
	return secretStore{tool.New(spec, keepSecret)}
}

// writeOnly says of a property of a schema that it is a secret, which no tag of a field can.
func writeOnly(schema json.RawMessage, property string) json.RawMessage {
	at := bytes.Index(schema, []byte(`"`+property+`":{`))
	if at < 0 {
		return schema // which the test of the schema finds
	}
	at += len(property) + len(`"":{`)
	return slices.Concat(schema[:at], []byte(`"writeOnly":true,`), schema[at:])
}

// Permissions implements tool.Guarded.
func (secretStore) Permissions(call tool.Call) []perdure.Permission {
	in, err := tool.Decode[secretArgs](call)
	if err != nil || in.Operation != "get" {
		return nil
	}
	return []perdure.Permission{{Kind: tool.ReadSecret, Target: in.Name, Reason: "it shows the value of a secret to the model, which is recorded with the conversation"}}
}

// Reconcile implements tool.Reconciler: the secret says which call wrote it. Everything else changes nothing, or the same
// again.
func (secretStore) Reconcile(ctx context.Context, call tool.Call, env tool.Env) (tool.Reconciled, error) {
	in, err := tool.Decode[secretArgs](call)
	if err != nil || in.Operation != "set" || env.Secrets == nil {
		return tool.Reconciled{DidNotHappen: true}, nil
	}
	found, err := env.Secrets.Secret(ctx, in.Name)
	switch {
	case errors.Is(err, perdure.NotFound):
		return tool.Reconciled{DidNotHappen: true}, nil
	case err != nil:
		return tool.Reconciled{}, err
	case found.Call == call.ID:
		return tool.Reconciled{Happened: true, Result: tool.Success(secretSet{Name: in.Name, Set: true})}, nil
	}
	return tool.Reconciled{DidNotHappen: true}, nil
}

func keepSecret(ctx context.Context, in secretArgs, env tool.Env) (tool.Result, error) {
	if env.Secrets == nil {
		return tool.Missing(storage, secretName+" requires the storage of a session."), nil
	}
	if in.Operation == "list" {
		found, err := env.Secrets.Secrets(ctx)
		if err != nil {
			return worded(ctx, err), nil
		}
		return tool.Success(secretList{Secrets: append([]tool.SecretStat{}, found...)}), nil
	}
	if r := needs(in.Operation, "name", in.Name != ""); r != nil {
		return *r, nil
	}
	switch in.Operation {
	case "get":
		return getSecret(ctx, in.Name, env), nil
	case "set":
		if r := needs(in.Operation, "value", in.Value != ""); r != nil {
			return *r, nil
		}
	}
	if env.DryRun { // AP13
		return tool.Success(fmt.Sprintf("[dry-run] Would %s the secret %q.", in.Operation, in.Name)), nil
	}
	if in.Operation == "delete" {
		there, err := env.Secrets.RemoveSecret(ctx, in.Name)
		if err != nil {
			return worded(ctx, err), nil
		}
		return tool.Success(secretGone{Name: in.Name, Deleted: there}), nil
	}
	if err := env.Secrets.SetSecret(ctx, tool.SecretWrite{Name: in.Name, Value: in.Value, Hosts: in.Hosts}); err != nil {
		return worded(ctx, err), nil
	}
	return tool.Success(secretSet{Name: in.Name, Set: true}), nil
}

// getSecret answers a handle or, where that was granted, the value.
func getSecret(ctx context.Context, name string, env tool.Env) tool.Result {
	found, err := env.Secrets.Secret(ctx, name)
	if errors.Is(err, perdure.NotFound) {
		return tool.Failf("Secret not found: %s", name)
	}
	if err != nil {
		return worded(ctx, err)
	}
	if !slices.ContainsFunc(env.Call.Granted, func(p perdure.Permission) bool { return p.Kind == tool.ReadSecret && p.Target == name }) {
		return tool.Success(secretHandle{
			SecretStat: found, Handle: "secret:" + name,
			Note: "The value is not shown: this call was not given the permission secret.read.",
		})
	}
	if env.DryRun { // AP13
		return tool.Success(fmt.Sprintf("[dry-run] Would show the secret %q.", name))
	}
	value, err := env.Secrets.Reveal(ctx, name)
	if errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Unavailable) {
		return tool.Failf("The secret %s cannot be opened, and a person must see to it: %s", name, err)
	}
	if err != nil {
		return worded(ctx, err)
	}
	r := tool.Success(secretShown{Name: name, Value: value})
	r.Reveals = true
	return r
}
