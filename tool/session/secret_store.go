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
	Name      string   `json:"name,omitempty" minLength:"1" jsonschema:"The name of the secret; not for list"`
	Value     string   `json:"value,omitempty" minLength:"1" jsonschema:"The secret value; only for set"`
	Hosts     []string `json:"hosts,omitempty" maxItems:"50" jsonschema:"Hosts to which it may be sent, such as api.example.com; only for set"`
}

// The results of secret_store. Only the last one contains a value.
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

// secretStore is the tool secret_store. For a call that shows a value, it reports a permission, so
// that a policy and a person can decide. After a crash, it finds out whether a value was written.
type secretStore struct{ tool.Tool }

var (
	_ tool.Guarded    = secretStore{}
	_ tool.Reconciler = secretStore{}
)

// SecretStore returns the tool secret_store.
//
// A value that was not written before a crash is lost with the process that held it, so a call
// cannot simply run again: its class is at_most_once, and Reconcile finds out whether it took
// effect.
func SecretStore() tool.Tool {
	yes, no := true, false
	spec := tool.Spec{
		Name:          secretName,
		DisplayName:   "Secret Store",
		Narration:     tool.Narration{Started: "Secret store, {operation}[ {name}]", Completed: "Secret store, {operation}[ {name}]", Failed: "Could not {operation} the secret[ {name}]"},
		Description:   strings.TrimSpace(secretText),
		Class:         perdure.AtMostOnce,
		Concurrency:   storageConcurrency,
		NeedsEnv:      true,
		HandlesDryRun: true,
		Hints:         tool.Hints{ReadOnly: &no, Idempotent: &no, OpenWorld: &no, RequiresSecrets: &yes, CapabilityID: StorageCapability},
	}
	spec.Parameters = writeOnly(tool.New(spec, runSecretStore).Spec().Parameters, "value")
	return secretStore{tool.New(spec, runSecretStore)}
}

// writeOnly marks a property of a schema as a secret, which field tags cannot express.
func writeOnly(schema json.RawMessage, property string) json.RawMessage {
	at := bytes.Index(schema, []byte(`"`+property+`":{`))
	if at < 0 {
		return schema // the test of the schema detects this
	}
	at += len(property) + len(`"":{`)
	return slices.Concat(schema[:at], []byte(`"writeOnly":true,`), schema[at:])
}

func (secretStore) Permissions(call tool.Call) []perdure.Permission {
	in, err := tool.Decode[secretArgs](call)
	if err != nil || in.Operation != "get" {
		return nil
	}
	return []perdure.Permission{{Kind: tool.ReadSecret, Target: in.Name, Reason: "it shows the value of a secret to the model, and the value is recorded with the conversation"}}
}

// Reconcile implements tool.Reconciler: a secret records which call wrote it. All other operations
// change nothing, or make the same change again.
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

func runSecretStore(ctx context.Context, in secretArgs, env tool.Env) (tool.Result, error) {
	if env.Secrets == nil {
		return tool.Missing(storage, secretName+" requires the storage of a session."), nil
	}
	if in.Operation == "list" {
		found, err := env.Secrets.Secrets(ctx)
		if err != nil {
			return portError(ctx, err), nil
		}
		return tool.Success(secretList{Secrets: append([]tool.SecretStat{}, found...)}), nil
	}
	if r := missingArgument(in.Operation, "name", in.Name != ""); r != nil {
		return *r, nil
	}
	switch in.Operation {
	case "get":
		return getSecret(ctx, in.Name, env), nil
	case "set":
		if r := missingArgument(in.Operation, "value", in.Value != ""); r != nil {
			return *r, nil
		}
	}
	if env.DryRun { // AP13
		return tool.Success(fmt.Sprintf("[dry-run] Would %s the secret %q.", in.Operation, in.Name)), nil
	}
	if in.Operation == "delete" {
		existed, err := env.Secrets.RemoveSecret(ctx, in.Name)
		if err != nil {
			return portError(ctx, err), nil
		}
		return tool.Success(secretGone{Name: in.Name, Deleted: existed}), nil
	}
	if err := env.Secrets.SetSecret(ctx, tool.SecretWrite{Name: in.Name, Value: in.Value, Hosts: in.Hosts}); err != nil {
		return portError(ctx, err), nil
	}
	return tool.Success(secretSet{Name: in.Name, Set: true}), nil
}

// getSecret returns a handle or, if the permission was granted, the value.
func getSecret(ctx context.Context, name string, env tool.Env) tool.Result {
	found, err := env.Secrets.Secret(ctx, name)
	if errors.Is(err, perdure.NotFound) {
		return tool.Failf("Secret not found: %s", name)
	}
	if err != nil {
		return portError(ctx, err)
	}
	if !slices.ContainsFunc(env.Call.Granted, func(p perdure.Permission) bool { return p.Kind == tool.ReadSecret && p.Target == name }) {
		return tool.Success(secretHandle{
			SecretStat: found, Handle: "secret:" + name,
			Note: "The value is not shown because this call does not have the permission secret.read.",
		})
	}
	if env.DryRun { // AP13
		return tool.Success(fmt.Sprintf("[dry-run] Would show the secret %q.", name))
	}
	value, err := env.Secrets.Reveal(ctx, name)
	if errors.Is(err, perdure.Invalid) || errors.Is(err, perdure.Unavailable) {
		return tool.Failf("The secret %s cannot be decrypted; a person must fix this: %s", name, err)
	}
	if err != nil {
		return portError(ctx, err)
	}
	r := tool.Success(secretShown{Name: name, Value: value})
	r.RevealsSecret = true
	return r
}
