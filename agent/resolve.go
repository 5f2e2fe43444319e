package agent

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// The bounds of an overlay, each alone and all folded.
const (
	maxPromptBytes = 256 << 10
	maxNames       = 1_000 // tools and capabilities, of each
	maxFiles       = 1_000
	maxFileBytes   = 10 << 20 // of all initial files together: they are written in the commit that makes the session
)

// Check returns all that is wrong with an overlay, in one error. It is Invalid.
func (o Overlay) Check() error {
	errs := []error{o.checkNames(), o.checkFiles()}
	if len(o.SystemPrompt) > maxPromptBytes {
		errs = append(errs, fmt.Errorf("%w system_prompt: it has %d bytes, at most %d are allowed", perdure.Invalid, len(o.SystemPrompt), maxPromptBytes))
	}
	for i, l := range o.NetworkAccess {
		if err := l.Check(); err != nil {
			errs = append(errs, fmt.Errorf("network_access %d: %w", i+1, err))
		}
	}
	if o.DefaultModel != "" {
		_, err := perdure.ParseID[perdure.ModelID](string(o.DefaultModel))
		errs = append(errs, err)
	}
	if o.SoftBudgetMS < -1 {
		errs = append(errs, fmt.Errorf("%w soft_budget_ms %d: a number of milliseconds, or -1 for never", perdure.Invalid, o.SoftBudgetMS))
	}
	if o.Recovery != "" && o.Recovery != perdure.RecoverContinue && o.Recovery != perdure.RecoverFinalize && o.Recovery != perdure.RecoverRestart {
		errs = append(errs, fmt.Errorf("%w recovery %q: continue, finalize or restart", perdure.Invalid, o.Recovery))
	}
	errs = append(errs, o.MaxIterations.check("max_iterations"), o.Limits.ContextTokens.check("limits.context_tokens"),
		o.Limits.ParallelCalls.check("limits.parallel_calls"), o.Limits.Continuations.check("limits.continuations"), o.Limits.SealAfter.check("limits.seal_after"))
	return errors.Join(errs...)
}

// checkNames looks at tools and capabilities. Whether there are such is the engine's to know.
func (o Overlay) checkNames() error {
	var errs []error
	for _, list := range []struct {
		what  string
		names []string
	}{{"tools", o.Tools}, {"capabilities", o.Capabilities}} {
		if len(list.names) > maxNames {
			errs = append(errs, fmt.Errorf("%w %s: %d of them, at most %d are allowed", perdure.Invalid, list.what, len(list.names), maxNames))
		}
		if slices.Contains(list.names, "") {
			errs = append(errs, fmt.Errorf("%w %s: one has no name", perdure.Invalid, list.what))
		}
	}
	return errors.Join(errs...)
}

// checkFiles looks at the initial files. Their paths are looked at again where they are written.
func (o Overlay) checkFiles() error {
	var errs []error
	size := 0
	for _, f := range o.InitialFiles {
		size += len(f.Content)
		if !path.IsAbs(f.Path) || path.Clean(f.Path) == "/" || strings.ContainsRune(f.Path, 0) || slices.Contains(strings.Split(f.Path, "/"), "..") {
			errs = append(errs, fmt.Errorf("%w initial file %q: its path must be absolute, without .. and NUL, and name a file", perdure.Invalid, f.Path))
		}
		_, err := base64.StdEncoding.DecodeString(f.Content)
		if f.Encoding != "" && f.Encoding != "text" && (f.Encoding != "base64" || err != nil) {
			errs = append(errs, fmt.Errorf("%w initial file %q: its content is not %.40q: text or base64", perdure.Invalid, f.Path, f.Encoding))
		}
	}
	if size > maxFileBytes || len(o.InitialFiles) > maxFiles {
		errs = append(errs, fmt.Errorf("%w initial_files: %d with %d bytes, at most %d with %d bytes are allowed",
			perdure.Invalid, len(o.InitialFiles), size, maxFiles, maxFileBytes))
	}
	return errors.Join(errs...)
}

// Resolve makes the agent that a session is created with of a folded overlay (N9). Capabilities and the model stand in it by
// their ids: the engine that makes the session puts their tools, their words and the model's name in. Invalid: what
// Check says.
func Resolve(o Overlay) (perdure.Agent, error) {
	if err := o.Check(); err != nil {
		return perdure.Agent{}, fmt.Errorf("resolve an overlay: %w", err)
	}
	o = Fold(o) // of its own
	resolved := perdure.Agent{
		Instructions: o.SystemPrompt, Model: string(o.DefaultModel), Tools: o.Tools, Capabilities: o.Capabilities,
		MaxIterations:    o.MaxIterations.effective(perdure.DefaultMaxIterations),
		MaxContextTokens: o.Limits.ContextTokens.effective(0),
		MaxParallelCalls: o.Limits.ParallelCalls.effective(perdure.DefaultParallelCalls),
		MaxContinuations: o.Limits.Continuations.effective(perdure.DefaultMaxContinuations),
		SealAfter:        o.Limits.SealAfter.effective(0),
		SerialCalls:      o.ParallelToolCalls != nil && !*o.ParallelToolCalls, DisableBackground: o.Background != nil && !*o.Background,
		AskEffects:   o.Approvals.Hard || o.Approvals.AskEffects != nil && *o.Approvals.AskEffects,
		AskUntrusted: o.Approvals.AskUntrusted,
		Summarise:    o.Summarise != nil && *o.Summarise, Recovery: o.Recovery, SoftBudgetMS: o.SoftBudgetMS, DryRun: o.DryRun,
		Locale: o.Locale, Timezone: o.Timezone, Metadata: o.Metadata,
	}
	switch {
	case slices.Contains(o.Tools, AllTools):
		resolved.Tools = nil
	case o.Tools == nil:
		resolved.Tools = []string{} // none, which is not all
	}
	for _, l := range o.NetworkAccess {
		resolved.Network = resolved.Network.Narrow(l)
	}
	return resolved, nil
}
