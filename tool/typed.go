package tool

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/perdure/perdure"
)

// New makes a tool of a Go function. The schema of the arguments is derived from In, a struct, and the
// output schema from Out, unless the spec has its own (TL24).
//
// A field is named by its json tag and is required, unless it is a pointer, has omitempty or omitzero, or
// has a default. Null is never accepted, and unknown properties are refused. These tags say more:
//
//	jsonschema:"…"            the description
//	enum:"a,b"                the accepted values; on a list, of its items
//	min:"1" max:"10"          of a number
//	pattern:"^[a-z]+$"        of a string (RE2)
//	minLength:"1" maxLength:"9"   in characters
//	minItems:"1" maxItems:"9"
//	default:"5"               filled in after validation when the property is absent
//
// What fn returns is the result as JSON; an Out of type [Result] is the result itself. An error is a tool
// error if it is a [ToolError] or a [FileError], else internal (TL13). In fn, env.Sink is never nil.
//
// New does not fail: a spec without an effect class, or types without a schema, are refused by the registry.
func New[In, Out any](spec Spec, fn func(ctx context.Context, in In, env Env) (Out, error)) Tool {
	return newTyped(spec, fn)
}

// NewBackground is New for a tool that can also run in the background, with the same function. There
// env.Sink is the task's, and what is reported through it is durable.
func NewBackground[In, Out any](spec Spec, fn func(ctx context.Context, in In, env Env) (Out, error)) Background {
	return &typedBackground[In, Out]{newTyped(spec, fn)}
}

// typed is a tool of a Go function.
type typed[In, Out any] struct {
	spec Spec
	fn   func(ctx context.Context, in In, env Env) (Out, error)
	fill defaults
}

type typedBackground[In, Out any] struct{ *typed[In, Out] }

func newTyped[In, Out any](spec Spec, fn func(ctx context.Context, in In, env Env) (Out, error)) *typed[In, Out] {
	t := &typed[In, Out]{spec: spec, fn: fn}
	derived, err := deriveInput(reflect.TypeFor[In]())
	switch {
	case fn == nil:
		t.spec.Parameters = unusable("the tool has no function")
	case err != nil:
		t.spec.Parameters = unusable(err.Error())
	case len(spec.Parameters) == 0:
		t.spec.Parameters = derived.text
	}
	if len(spec.OutputSchema) == 0 {
		t.spec.OutputSchema = deriveOutput(reflect.TypeFor[Out]())
	}
	t.fill = derived.defaults
	return t
}

// Spec returns the spec with the derived schemas.
func (t *typed[In, Out]) Spec() Spec { return t.spec }

// Run decodes the arguments and calls the function.
func (t *typed[In, Out]) Run(ctx context.Context, call Call, env Env) Result {
	canonical, err := perdure.CanonicalJSON(call.Args)
	if err != nil {
		return Error(faultText(t.spec.Name, []fault{{"/", jsonFault(err)}}))
	}
	in, faults := decode[In](canonical, t.fill)
	if len(faults) > 0 {
		return Error(faultText(t.spec.Name, faults))
	}
	env.Call = call
	env.Sink = env.Report()
	out, err := t.fn(ctx, in, env)
	if err != nil {
		return FromError(err)
	}
	if result, ok := any(out).(Result); ok {
		return result
	}
	return Success(out)
}

// RunBackground calls the function with the task's sink.
func (t *typedBackground[In, Out]) RunBackground(ctx context.Context, call Call, env Env, sink Sink) Result {
	env.Sink = sink
	return t.Run(ctx, call, env)
}

func (t *typed[In, Out]) decodes(canonical []byte) []fault {
	_, faults := decode[In](canonical, t.fill)
	return faults
}

// Decode reads the arguments of a call as [New] does for its function: numbers exact, defaults filled in.
// For the optional methods of a tool, such as Reconcile. The error is a *ToolError.
func Decode[In any](call Call) (In, error) {
	var none In
	canonical, err := perdure.CanonicalJSON(call.Args)
	if err != nil {
		return none, &ToolError{faultText(call.Tool, []fault{{"/", jsonFault(err)}})}
	}
	derived, err := deriveInput(reflect.TypeFor[In]())
	if err != nil {
		return none, err
	}
	in, faults := decode[In](canonical, derived.defaults)
	if len(faults) > 0 {
		return none, &ToolError{faultText(call.Tool, faults)}
	}
	return in, nil
}

// decode reads canonical JSON into a Go value. Canonical numbers have no needless fraction or exponent, so
// 5.0 fits an integer and 5.5 does not.
func decode[In any](canonical []byte, fill defaults) (In, []fault) {
	var in, none In
	text, err := fill.into(canonical)
	if err != nil {
		return none, []fault{{"/", jsonFault(err)}}
	}
	if err := perdure.DecodeJSON(text, &in); err != nil {
		return none, []fault{decodeFault(err)}
	}
	return in, nil
}

// decodeFault is what a value in the arguments does not fit.
func decodeFault(err error) fault {
	var wrong *perdure.JSONError
	if !errors.As(err, &wrong) {
		return fault{"/", clip(err.Error(), maxFaultBytes)}
	}
	return fault{cmp.Or(wrong.Pointer, "/"), wrong.Text}
}
