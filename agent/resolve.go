package agent

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perdure/perdure"
)

// The limits of an overlay. They apply to each layer and to the folded overlay.
const (
	maxDescriptionBytes = 1 << 10
	maxPromptBytes      = 256 << 10
	maxModelBytes       = 4 << 10 // a model's name can contain the URL of its server
	maxNames            = 1_000   // of tools, and of capabilities
	maxFiles            = 1_000
	maxFileBytes        = 10 << 20 // of all initial files together; one commit creates the session with them
)

// FieldError says what is wrong with a field of an overlay. It is Invalid.
type FieldError struct {
	Field string // path of JSON names, separated by slashes
	Err   error
}

// Error returns the text of Err.
func (e *FieldError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// fieldErrors collects errors.
type fieldErrors []error

// add adds the error of a field, unless it is nil.
func (f *fieldErrors) add(field string, err error) {
	if err != nil {
		*f = append(*f, &FieldError{field, err})
	}
}

// Check returns everything that is wrong with an overlay as one joined error. Each part is an
// Invalid *[FieldError].
func (o Overlay) Check() error {
	var wrong fieldErrors
	if len(o.Description) > maxDescriptionBytes {
		wrong.add("description", fmt.Errorf("%w description: it has %d bytes, at most %d are allowed", perdure.Invalid, len(o.Description), maxDescriptionBytes))
	}
	if len(o.SystemPrompt) > maxPromptBytes {
		wrong.add("system_prompt", fmt.Errorf("%w system_prompt: it has %d bytes, at most %d are allowed", perdure.Invalid, len(o.SystemPrompt), maxPromptBytes))
	}
	wrong.add("tools", checkNames("tools", o.Tools))
	wrong.add("capabilities", checkNames("capabilities", o.Capabilities))
	o.checkFiles(&wrong)
	for i, l := range o.NetworkAccess {
		if err := l.Check(); err != nil {
			wrong.add(fmt.Sprintf("network_access/%d", i), fmt.Errorf("network_access %d: %w", i+1, err))
		}
	}
	if len(o.Model) > maxModelBytes {
		wrong.add("model", fmt.Errorf("%w model: it has %d bytes, at most %d are allowed", perdure.Invalid, len(o.Model), maxModelBytes))
	}
	if o.DefaultModel != "" {
		_, err := perdure.ParseID[perdure.ModelID](string(o.DefaultModel))
		wrong.add("default_model_id", err)
	}
	if len(o.Permissions) > maxNames {
		wrong.add("permissions", fmt.Errorf("%w permissions: there are %d, at most %d are allowed", perdure.Invalid, len(o.Permissions), maxNames))
	}
	for i, r := range o.Permissions {
		wrong.add(fmt.Sprintf("permissions/%d", i), r.Check())
	}
	if o.SoftBudgetMS < -1 {
		wrong.add("soft_budget_ms", fmt.Errorf("%w soft_budget_ms %d: use a number of milliseconds, or -1 for never",
			perdure.Invalid, o.SoftBudgetMS))
	}
	if o.Recovery != "" && o.Recovery != perdure.RecoverContinue && o.Recovery != perdure.RecoverFinalize && o.Recovery != perdure.RecoverRestart {
		wrong.add("recovery", fmt.Errorf("%w recovery %q: use continue, finalize or restart", perdure.Invalid,
			o.Recovery))
	}
	for _, l := range []struct {
		field string
		limit Limit
	}{
		{"max_iterations", o.MaxIterations}, {"limits/context_tokens", o.Limits.ContextTokens}, {"limits/parallel_calls", o.Limits.ParallelCalls},
		{"limits/continuations", o.Limits.Continuations}, {"limits/seal_after", o.Limits.SealAfter},
	} {
		wrong.add(l.field, l.limit.check(strings.ReplaceAll(l.field, "/", ".")))
	}
	wrong.add("limits", o.Limits.AgentLimits.Check())
	return errors.Join(wrong...)
}

// checkNames checks tools or capabilities. The engine checks whether they exist.
func checkNames(what string, names []string) error {
	switch {
	case len(names) > maxNames:
		return fmt.Errorf("%w %s: there are %d, at most %d are allowed", perdure.Invalid, what, len(names), maxNames)
	case slices.Contains(names, ""):
		return fmt.Errorf("%w %s: one of them is empty", perdure.Invalid, what)
	}
	return nil
}

// checkFiles checks the initial files. The paths are checked again when the files are written.
func (o Overlay) checkFiles(wrong *fieldErrors) {
	size := 0
	for i, f := range o.InitialFiles {
		size += len(f.Content)
		field := fmt.Sprintf("initial_files/%d", i)
		if !path.IsAbs(f.Path) || path.Clean(f.Path) == "/" || strings.ContainsRune(f.Path, 0) || slices.Contains(strings.Split(f.Path, "/"), "..") {
			wrong.add(field+"/path", fmt.Errorf("%w initial file %q: its path must be absolute, without .. and NUL, and name a file", perdure.Invalid, f.Path))
		}
		_, err := base64.StdEncoding.DecodeString(f.Content)
		if f.Encoding != "" && f.Encoding != "text" && (f.Encoding != "base64" || err != nil) {
			wrong.add(field+"/content", fmt.Errorf("%w initial file %q: its content is not %.40q: use text or base64",
				perdure.Invalid, f.Path, f.Encoding))
		}
	}
	if size > maxFileBytes || len(o.InitialFiles) > maxFiles {
		wrong.add("initial_files", fmt.Errorf("%w initial_files: there are %d with %d bytes, "+
			"but the limits are %d files and %d bytes",
			perdure.Invalid, len(o.InitialFiles), size, maxFiles, maxFileBytes))
	}
}

// Resolve turns a folded overlay into the configuration of a session. It leaves capabilities and
// the model as ids; the engine that creates the session adds their tools, their instructions and
// the model's name. The error is that of Check.
func Resolve(o Overlay) (perdure.Agent, error) {
	if err := o.Check(); err != nil {
		return perdure.Agent{}, fmt.Errorf("resolve overlay: %w", err)
	}
	o = Fold(o) // a copy
	resolved := perdure.Agent{
		Instructions: o.SystemPrompt, Model: cmp.Or(o.Model, string(o.DefaultModel)), Tools: o.Tools, Capabilities: o.Capabilities,
		MaxIterations:    o.MaxIterations.effective(perdure.DefaultMaxIterations),
		MaxContextTokens: o.Limits.ContextTokens.effective(0),
		MaxParallelCalls: o.Limits.ParallelCalls.effective(perdure.DefaultParallelCalls),
		MaxContinuations: o.Limits.Continuations.effective(perdure.DefaultMaxContinuations),
		SealAfter:        o.Limits.SealAfter.effective(0),
		Limits:           o.Limits.AgentLimits,
		SerialCalls:      o.ParallelToolCalls != nil && !*o.ParallelToolCalls, DisableBackground: o.Background != nil && !*o.Background,
		AskEffects:   o.Approvals.Hard || o.Approvals.AskEffects != nil && *o.Approvals.AskEffects,
		AskUntrusted: o.Approvals.AskUntrusted, Permissions: o.Permissions,
		ClientConnections: o.AwaitConnections != nil && *o.AwaitConnections,
		Summarise:         o.Summarise != nil && *o.Summarise, Recovery: o.Recovery, SoftBudgetMS: o.SoftBudgetMS, DryRun: o.DryRun,
		Locale: o.Locale, Timezone: o.Timezone, Metadata: o.Metadata,
	}
	switch {
	case slices.Contains(o.Tools, AllTools):
		resolved.Tools = nil
	case o.Tools == nil:
		resolved.Tools = []string{} // an empty list means no tools; nil would mean all
	}
	for _, l := range o.NetworkAccess {
		resolved.Network = resolved.Network.Narrow(l)
	}
	return resolved, nil
}
