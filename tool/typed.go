package tool

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
)

// New makes a tool from a Go function. The schema of the arguments is derived from In, a struct,
// and the output schema from Out, unless the spec has its own.
//
// A field has the name of its json tag. It is required unless it is a pointer, has omitempty or
// omitzero, or has a default. null is never accepted, and unknown properties are refused. More
// tags:
//
//	jsonschema:"…"            the description
//	enum:"a,b"                the accepted values; on a list, of its items
//	min:"1" max:"10"          of a number
//	pattern:"^[a-z]+$"        of a string (RE2)
//	minLength:"1" maxLength:"9"   in characters
//	minItems:"1" maxItems:"9"
//	default:"5"               filled in after validation when the property is absent
//
// The return value of fn becomes the result as JSON; an Out of type [Result] is used as it is. An
// error is a tool error if it is a [ToolError] or a [FileError], else an internal error. In fn,
// env.Sink is never nil.
//
// MustNotExist does not fail: the registry refuses a spec without an effect class, or types without
// a schema.
func New[In, Out any](spec Spec, fn func(ctx context.Context, in In, env Env) (Out, error)) Tool {
	return newTyped(spec, fn)
}

// Func is New for a function that needs nothing but its arguments. It is the short form for a tool
// without settings of its own; the effect class says what crash recovery does with a call.
func Func[In, Out any](name, description string, class perdure.EffectClass, fn func(ctx context.Context, in In) (Out, error)) Tool {
	spec := Spec{Name: name, Description: description, Class: class}
	if fn == nil {
		return newTyped[In, Out](spec, nil)
	}
	return newTyped(spec, func(ctx context.Context, in In, _ Env) (Out, error) { return fn(ctx, in) })
}

// NewBackground is New for a tool that can also run in the background, with the same function.
// There env.Sink is the task's, and everything reported through it is durable.
func NewBackground[In, Out any](spec Spec, fn func(ctx context.Context, in In, env Env) (Out, error)) Background {
	return &typedBackground[In, Out]{newTyped(spec, fn)}
}

// typed is a tool made from a Go function.
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
		t.spec.Parameters = refusedSchema("the tool has no function")
	case err != nil:
		t.spec.Parameters = refusedSchema(err.Error())
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
	canonical, err := strictjson.Canonical(call.Args)
	if err != nil {
		return Error(faultText(t.spec.Name, []fault{{"/", jsonFaultText(err)}}))
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

// Decode decodes the arguments of a call as [MustNotExist] does for its function: numbers are
// exact, and defaults are filled in. It is for the optional methods of a tool, such as Reconcile.
// The error is a *ToolError.
func Decode[In any](call Call) (In, error) {
	var zero In
	canonical, err := strictjson.Canonical(call.Args)
	if err != nil {
		return zero, &ToolError{faultText(call.Tool, []fault{{"/", jsonFaultText(err)}})}
	}
	derived, err := deriveInput(reflect.TypeFor[In]())
	if err != nil {
		return zero, err
	}
	in, faults := decode[In](canonical, derived.defaults)
	if len(faults) > 0 {
		return zero, &ToolError{faultText(call.Tool, faults)}
	}
	return in, nil
}

// decode decodes canonical JSON into a Go value. Canonical numbers have no unneeded fraction or
// exponent, so 5.0 fits an integer and 5.5 does not.
func decode[In any](canonical []byte, fill defaults) (In, []fault) {
	var in, zero In
	text, err := fill.into(canonical)
	if err != nil {
		return zero, []fault{{"/", jsonFaultText(err)}}
	}
	if err := perdure.DecodeJSON(text, &in); err != nil {
		return zero, []fault{decodeFault(err)}
	}
	return in, nil
}

// decodeFault returns the fault of a value that does not fit the Go type.
func decodeFault(err error) fault {
	var wrong *strictjson.Fault
	if !errors.As(err, &wrong) {
		return fault{"/", clip(err.Error(), maxFaultBytes)}
	}
	return fault{cmp.Or(wrong.Pointer, "/"), wrong.Text}
}
