// Package hostcall runs calls that no model makes: an MCP client or a program makes them. Each is a
// task that its caller reads by a handle.
//
// It may import the root, store and tool, of internal: secretargs and telemetry, and of
// internal/effect: admission, core, secrets, taskrecord, taskrun and toolset.
//
// The one thing to know: a caller that lost the reply of a call and repeats it joins the call, and
// starts no second one.
package hostcall

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/secrets"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// Calls runs the calls of hosts.
type Calls struct {
	core      *core.Core
	toolset   *toolset.Toolset
	secrets   *secrets.Secrets
	admission *admission.Admission
	records   *taskrecord.Records
	tasks     *taskrun.Tasks
	// undelivered finds calls again whose reply was never written in full.
	undelivered hostCalls
}

// New returns the calls of hosts. Each runs as one of tasks.
func New(p taskrun.Parts, a *admission.Admission, tasks *taskrun.Tasks) *Calls {
	return &Calls{core: p.Core, toolset: p.Toolset, secrets: p.Secrets, admission: a, records: p.Records, tasks: tasks}
}

// Request asks for a call that no model makes: an MCP client or a program makes it.
type Request struct {
	Session perdure.SessionID
	Tool    string
	Args    json.RawMessage
	Title   string // of its task; empty: the tool's display name
	Key     string // idempotency key of the caller: the same key is the same call; empty: none
	// Join applies without a Key. A call with the same content that started less than Join ago, and
	// whose reply was never written in full, is joined instead of starting a new one. 0: never.
	Join time.Duration
	// KeyIsRequestID says that Key only identifies this request. A new key does not mean that a new
	// effect is intended.
	KeyIsRequestID bool
	Metadata       map[string]string // for the tool, hooks and policies
}

// Call is a call of a host. Its id is its handle: 128 bits that cannot be guessed.
type Call struct {
	ID perdure.CallID
	// the zero task: the call was refused before anything was recorded, or the task was pruned
	Task   perdure.Task
	Result *perdure.ToolResult // set once the call has ended or was refused
	Joined bool                // the call existed before
}

// Start runs a tool as a task, for a caller that is not a model. The call is durable when
// Start returns, and needs no slot of its session. Conflict: the key belongs to another
// call. NotFound: no such tool or session.
func (hc *Calls) Start(ctx context.Context, o Request) (Call, error) {
	target, ok := hc.toolset.Find(o.Tool)
	if !ok {
		return Call{}, fmt.Errorf("call %s: %w", o.Tool, perdure.NotFound)
	}
	made, err := hc.hostCall(ctx, o, target)
	if err != nil {
		return Call{}, fmt.Errorf("call %s: %w", o.Tool, err)
	}
	return made, nil
}

func (hc *Calls) hostCall(ctx context.Context, o Request, target tool.Tool) (Call, error) {
	row, owner, err := hc.hostSession(ctx, o.Session)
	if err != nil {
		return Call{}, err
	}
	if n := perdure.MetadataBytes(o.Metadata); n > perdure.MaxMessageMetadataBytes {
		return Call{}, fmt.Errorf("%w metadata: keys and values have %d bytes, but at most %d are allowed", perdure.Invalid, n,
			perdure.MaxMessageMetadataBytes)
	}
	if len(o.Args) == 0 {
		o.Args = json.RawMessage("{}")
	}
	spec := target.Spec()
	// with secrets, two different calls may be recorded alike
	secret := secretargs.HasSecrets(spec.Parameters) || secretargs.HasKnownMark(hc.secrets.Recorded(o.Session, target, o.Args))
	if o.Key == "" && o.Join > 0 && !secret && spec.Class != perdure.Pure {
		known := hc.undelivered.of(o.Session)
		known.mu.Lock()
		defer known.mu.Unlock()
		found, fingerprint, err := hc.findJoinable(ctx, known, o)
		if found.ID != "" || err != nil {
			return found, err
		}
		made, err := hc.makeHostCall(ctx, o, hostCaller{target, row, owner})
		if err == nil && made.Task.ID != "" {
			known.calls[fingerprint] = made.ID
		}
		return made, err
	}
	return hc.makeHostCall(ctx, o, hostCaller{target, row, owner})
}

// hostCaller is the caller of a host call, and its tool.
type hostCaller struct {
	target tool.Tool
	row    store.Session
	owner  *core.Owner
}

func (hc *Calls) hostSession(ctx context.Context, id perdure.SessionID) (row store.Session, o *core.Owner, err error) {
	return row, o, hc.core.Store.View(ctx, func(r store.Reader) error {
		if row, err = r.Sessions().Get(id); err == nil {
			err = hc.core.CheckFiles(r, row)
		}
		if err != nil {
			return err
		}
		if o, err = core.ReadOwner(r, id); err == nil {
			o.Trace = telemetry.TraceParent(ctx) // the caller's: a host call has no turn with a traceparent
		}
		return err
	})
}

// makeHostCall checks a call like any other, and commits its task together with its claim.
func (hc *Calls) makeHostCall(ctx context.Context, o Request, by hostCaller) (Call, error) {
	spec := by.target.Spec()
	key := perdure.CallKey{Session: o.Session, Call: hostCallID(by.row.Secret, o.Key)}
	if o.Key != "" {
		if known, err := hc.madeBefore(ctx, key, o, by); known.ID != "" || err != nil {
			return known, err
		}
	}
	args, _ := hc.secrets.Extract(key, by.target, o.Args)
	made := Call{}
	defer func() {
		if made.Task.ID == "" { // nothing will ever end the call
			hc.secrets.Vault.Drop(key)
		}
	}()
	known := hc.secrets.Known(o.Session)
	by.owner.Of(by.row).Request = maskedMetadata(known, o.Metadata)
	call := by.owner.Calls(tool.Call{Session: o.Session, ID: key.Call, Tool: o.Tool, Args: args, Class: spec.Class})
	if fault := hc.admission.ArgumentFault(by.target, call); fault != nil {
		fault.ErrorKind, fault.Refused = perdure.ErrorRejected, true
		return refuseHostCall(key.Call, *fault)
	}
	// what the caller has read is not known, so it counts as untrusted
	j := hc.admission.Judge(ctx, by.owner.Agent, by.target, call, true)
	if j.Refusal != nil {
		return refuseHostCall(key.Call, *j.Refusal)
	}
	if !bytes.Equal(j.Args, args) {
		j.Args, _ = hc.secrets.Extract(key, by.target, j.Args)
	}
	hc.secrets.Vault.KeepAcrossTurns(key)
	fingerprint, err := perdure.Fingerprint(o.Tool, j.Args)
	if err != nil {
		return Call{}, err
	}
	task := hc.records.OfCall(taskrecord.Call{
		Owner: by.owner, At: by.owner.Created, Secret: by.row.Secret,
		Name:   cmp.Or(secretargs.MaskKnown(known, o.Title), cmp.Or(spec.DisplayName, spec.Name)),
		Origin: perdure.OriginHost,
		Row:    perdure.Call{Key: key, Tool: o.Tool, Args: j.Args, Fingerprint: fingerprint, Class: spec.Class},
	})
	task.Delivery, task.Wake, task.Spec.SignalOnCompletion = perdure.Manual, perdure.WakeNone, false
	if task.ArgsHash, err = perdure.Fingerprint(o.Tool, args); err != nil { // as requested, before hooks rewrote it
		return Call{}, err
	}
	started, err := hc.commitHostCall(ctx, task, hostStart{owner: by.owner, permissions: j.Permissions,
		withhold: o.Key == "" || o.KeyIsRequestID})
	var same *admission.DuplicateError
	if errors.As(err, &same) {
		found, err := hc.Find(ctx, same.By.Key)
		found.Joined = true
		return found, err
	}
	var full *perdure.NoSlot
	if errors.As(err, &full) { // a budget refuses
		refused := tool.Error(full.Text)
		refused.ErrorKind, refused.Refused = perdure.ErrorRejected, true
		return refuseHostCall(key.Call, refused)
	}
	made = Call{ID: key.Call, Task: started}
	return made, err
}

// maskedMetadata returns metadata as it is recorded.
func maskedMetadata(known tool.SecretMasker, metadata map[string]string) map[string]string {
	if len(metadata) == 0 {
		return nil
	}
	shown := make(map[string]string, len(metadata))
	for key, value := range metadata {
		shown[secretargs.MaskKnown(known, key)] = secretargs.MaskKnown(known, value)
	}
	return shown
}

func refuseHostCall(id perdure.CallID, r tool.Result) (Call, error) {
	record, _ := r.Record(id) // the text of a refusal is a tool error's
	record.NeverStarted = true
	return Call{ID: id, Result: &record}, nil
}

// madeBefore finds the call of a key. Conflict: the key belongs to a different call.
func (hc *Calls) madeBefore(ctx context.Context, key perdure.CallKey, o Request, by hostCaller) (Call, error) {
	found, err := hc.Find(ctx, key)
	if errors.Is(err, perdure.NotFound) {
		return Call{}, nil
	}
	if err != nil || found.Task.ID == "" {
		return found, err
	}
	if fingerprint, err := perdure.Fingerprint(o.Tool, hc.secrets.Recorded(o.Session, by.target, o.Args)); err != nil ||
		fingerprint != found.Task.ArgsHash {
		return Call{}, fmt.Errorf("%w: the key was used for a call with another tool or other arguments",
			perdure.Conflict)
	}
	found.Joined = true
	return found, nil
}

// hostCallID returns the handle of a call, derived from the caller's key or random. A derived
// handle cannot be guessed either, because it is keyed with the session's secret.
func hostCallID(secret perdure.Secret, key string) perdure.CallID {
	var b [16]byte
	if key == "" {
		rand.Read(b[:]) // never fails
	} else {
		mac := hmac.New(sha256.New, secret[:])
		mac.Write([]byte("perdure/call/1\x00" + key))
		copy(b[:], mac.Sum(nil))
	}
	return perdure.CallID("call_" + hex.EncodeToString(b[:]))
}
