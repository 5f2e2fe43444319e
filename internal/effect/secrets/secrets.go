// Package secrets keeps secrets out of the records of model responses and calls: the secrets of a
// session, and the arguments that tools declare secret.
//
// It may import the root and tool, of internal: redact and secretargs, and of internal/effect: core
// and toolset.
//
// The one thing to know: what is removed from a record is held in the vault, in memory only. A
// process that continues the session later does not have it.
package secrets

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/toolset"
	"github.com/perdure/perdure/internal/redact"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/tool"
)

// Secrets removes secrets, and gives them back to the calls they belong to.
type Secrets struct {
	core    *core.Core
	toolset *toolset.Toolset
	// Vault holds the secret arguments of the calls of this process, in memory only.
	Vault secretargs.Vault
}

// New returns secrets with an empty vault.
func New(c *core.Core, tools *toolset.Toolset) *Secrets {
	return &Secrets{core: c, toolset: tools}
}

// Known returns the secrets of a session; nil: there can be none.
func (sec *Secrets) Known(id perdure.SessionID) tool.SecretMasker {
	if sec.core.Ports.Open == nil {
		return nil
	}
	return sec.core.Ports.Open(id, tool.Call{Session: id}).SecretMasker
}

// In returns what no text of a response may contain: the secrets of its session and the
// secret arguments of its calls, including calls that start background runs.
func (sec *Secrets) In(s *perdure.Session, m perdure.Message) (all []*secretargs.Masker) {
	if known := sec.Known(s.ID); known != nil {
		all = append(all, secretargs.New(known, nil))
	}
	for _, call := range m.Calls() {
		var own *redact.Set
		t, ok := sec.toolset.Find(call.Name)
		switch {
		case ok && t.Spec().Hints.CapabilityID != tool.BackgroundCapability:
			own = secretargs.SecretsOf(t.Spec().Parameters, call.Arguments)
		case !sec.hasSecretArgs():
		case ok:
			_, own, _ = secretargs.MaskOrder(t.Spec().Parameters, call.Arguments, sec.orderSchema)
		default:
			own = secretargs.AllTexts(call.Arguments)
		}
		if own != nil {
			all = append(all, secretargs.New(nil, own))
		}
	}
	return all
}

// Redact removes secrets from a response before any of it is recorded: secret arguments from
// its calls, and the values of these arguments and of the session's secrets from its texts.
// Thinking and state of the provider that contain a secret are dropped, because a changed text
// would not match its signature.
func (sec *Secrets) Redact(s *perdure.Session, m perdure.Message) perdure.Message {
	unsaid := sec.In(s, m)
	for _, v := range unsaid {
		for i, part := range m.Parts {
			if part.Type == perdure.PartText {
				m.Parts[i].Text = v.Mask(part.Text)
			}
		}
		if v.Mask(m.Thinking) != m.Thinking {
			m.Thinking, m.Signature = "", ""
			m.State = withoutThinking(m.State)
		}
		m.State = withoutSecrets(m.State, v)
	}
	for i, part := range m.Parts {
		if part.Type != perdure.PartToolCall || part.Call == nil {
			continue
		}
		call := *part.Call
		key := perdure.CallKey{Session: s.ID, Call: call.ID}
		t, ok := sec.toolset.Find(call.Name)
		some := false
		for _, v := range unsaid {
			clean := fieldsWithoutSecrets(call.ProviderFields, v)
			some = some || len(clean) < len(call.ProviderFields)
			call.ProviderFields = clean
		}
		if ok {
			args, changed := sec.Extract(key, t, call.Arguments)
			call.Arguments, some = args, some || changed
		} else if sec.hasSecretArgs() { // the model may have misspelled the name of a tool with secret arguments
			call, some = sec.redactUnknownCall(key, call, unsaid), true
		}
		if some {
			m.Parts[i].Call = &call
		}
	}
	return m
}

// redactUnknownCall returns a call of an unknown tool as it may be recorded.
func (sec *Secrets) redactUnknownCall(key perdure.CallKey, call perdure.ToolCall, unsaid []*secretargs.Masker) perdure.ToolCall {
	for _, v := range unsaid {
		if v.Mask(call.Name) != call.Name {
			call.Name = unknownTool
		}
	}
	if text := string(call.Arguments); text != "" && text != "{}" {
		call.Arguments = sec.Vault.HideAll(key, call.Arguments)
	}
	return call
}

// unknownTool replaces the name of an unknown tool that contains a secret.
const unknownTool = "unknown_tool"
