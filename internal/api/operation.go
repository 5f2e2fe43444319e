package api

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
)

// operation is what the document says of one operation, and how it is reached.
type operation struct {
	id, method, path string
	summary          string
	status           int                        // of success; 0: 200
	errors           []int                      // statuses beside those that every operation has
	open             bool                       // no token is needed
	policy           policy                     // what the token must allow
	forms            map[string]*huma.MediaType // of success, when it is not JSON of the output's type alone
	route            route
	farewell         farewell // it will be gone
}

// document is the frame of the OpenAPI document and the settings of huma.
func document(version string) huma.Config {
	format := huma.Format{
		Marshal:   func(w io.Writer, v any) error { return writeJSON(w, v) },
		Unmarshal: perdure.DecodeJSON,
	}
	registry := huma.NewMapRegistry("#/components/schemas/", schemaName)
	registry.RegisterTypeAlias(reflect.TypeFor[perdure.Event](), reflect.TypeFor[event]())
	cfg := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Perdure", Version: version,
				Description: "The HTTP API of Perdure: sessions, messages, events, calls, approvals, tasks, schedules and tools. Fields and values are only ever added; clients ignore what they do not know.",
			},
			Components: &huma.Components{
				Schemas:         registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}},
			},
		},
		Formats: map[string]huma.Format{formJSON: format, "json": format}, DefaultFormat: formJSON, // json: also problem+json
		RejectUnknownQueryParameters: true,
	}
	cfg.AllowAdditionalPropertiesByDefault = true // in answers; what is asked for is closed again by closeRequests
	return cfg
}

// schemaName is what a type is called in the document. Two of ours are called File.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[agent.File]() {
		return "InitialFile"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// closeRequests says in the document what the strict decoder does: a field that is not known is refused.
func (a *API) closeRequests() {
	for _, name := range []string{"NewSession", "Agent", "NewMessage", "NewPart", "Image", "Interruption", "Resolution", "Cancellation", "DirectCall",
		"Approving", "Denying", "Detaching", "ClientAnswer", "NewBudget", "Resuming", "Drain", "NewTaskMessage", "InputAnswer", "NewDelivery", "NewFork", "CallOrder",
		"NewSchedule", "ScheduleAction", "Pausing", "Backfilling", "ScheduleAct", "NewValue", "NewSecret", "FileMove", "TaskFilter",
		"NewBulkCancel", "Retrying", "SessionChange", "NewToken", "NewWebhook", "WebhookChange", "WebhookAct", "ConnectionAct", "NewAgent",
		"InitialFile", "Limit", "Limits", "Approvals"} {
		a.schemas().Map()[name].AdditionalProperties = false
	}
}

// writeJSON writes plain JSON, with < and > as they are.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// read registers an operation without a body.
func read[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) {
	o.method = http.MethodGet
	register(a, o, do)
}

// write registers an operation with a body of type B, of which example is one. The body may be left out when the
// zero value of B is a request.
func write[I, B, O any](a *API, o operation, body body[B], do func(context.Context, *I, B) (*O, error)) {
	o.method = http.MethodPost
	replace(a, o, body, do)
}

// replace registers an operation with a body that says how what its path names is to be.
func replace[I, B, O any](a *API, o operation, body body[B], do func(context.Context, *I, B) (*O, error)) {
	content := map[string]*huma.MediaType{formJSON: {Schema: a.schemas().Schema(reflect.TypeFor[B](), true, o.id), Example: body.example}}
	writeAs(a, o, &huma.RequestBody{Required: !body.optional, Content: content}, func(ctx context.Context, in *I) (*O, error) {
		b, err := decode[B](ctx, body.optional)
		if err != nil {
			return nil, err
		}
		return do(ctx, in, b)
	})
}

// writeAs registers an operation with a body that it reads itself, which is a PUT where nothing else is said.
func writeAs[I, O any](a *API, o operation, body *huma.RequestBody, do func(context.Context, *I) (*O, error)) {
	if o.method == "" {
		o.method = http.MethodPut
	}
	mutate(a, o, do).RequestBody = body
}

// erase registers an operation that removes what its path names. It has no body.
func erase[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) {
	o.method = http.MethodDelete
	mutate(a, o, do)
}

// mutate registers an operation that changes something, and returns it for the document.
func mutate[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) *huma.Operation {
	o.errors = append(o.errors, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	registered := register(a, o, do)
	known := a.routes[o.method+" "+o.path]
	known.adds = slices.ContainsFunc(registered.Parameters, func(p *huma.Param) bool { return p.Name == "If-None-Match" })
	a.routes[o.method+" "+o.path] = known
	registered.Parameters = append(registered.Parameters,
		&huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "1 to 255 visible ASCII characters. The same key with the same body gives the first answer again.",
		},
		&huma.Param{
			Name: "Perdure-Actor", In: "header", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{actorUser, actorOperator}},
			Description: "On the Unix socket: who acts. Over TCP it is api.",
		})
	return registered
}

// body is what the document says of a body.
type body[B any] struct {
	example  B
	optional bool
}

func (a *API) schemas() huma.Registry { return a.huma.OpenAPI().Components.Schemas }

// register gives an operation to huma, with its errors as problems, and returns it for the document.
func register[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) *huma.Operation {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, DefaultStatus: orDefault(o.status, http.StatusOK),
		Description: o.farewell.words(), Deprecated: o.farewell.since != "", Responses: map[string]*huma.Response{},
	}
	a.policies[o.method+" "+o.path] = ""
	if !o.open {
		a.policies[o.method+" "+o.path] = orDefault(o.policy, administers) // nobody says: fewest may
		op.Security = []map[string][]string{{"bearer": scopesOf(o.policy)}}
		o.errors = append(o.errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	if o.forms != nil {
		op.Responses[strconv.Itoa(op.DefaultStatus)] = &huma.Response{Description: http.StatusText(op.DefaultStatus), Content: o.forms}
	} else {
		op.Middlewares = huma.Middlewares{a.wantsJSON}
	}
	o.errors = append(o.errors, http.StatusBadRequest, http.StatusNotAcceptable, http.StatusRequestURITooLong,
		http.StatusRequestHeaderFieldsTooLarge, http.StatusInternalServerError)
	problem := a.schemas().Schema(reflect.TypeFor[Problem](), true, "Problem")
	for _, status := range o.errors {
		op.Responses[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status), Content: map[string]*huma.MediaType{"application/problem+json": {Schema: problem}},
		}
	}
	o.route.tagged = o.method == http.MethodGet && o.forms == nil && !o.open
	o.route.farewell = o.farewell
	a.routes[o.method+" "+o.path] = o.route
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			p := problemOf(ctx, err)
			a.told(ctx, p)
			return nil, p
		}
		return out, nil
	})
	item := a.documented(o.path)
	switch o.method {
	case http.MethodPatch:
		return item.Patch
	case http.MethodPost:
		return item.Post
	case http.MethodDelete:
		return item.Delete
	case http.MethodPut:
		return item.Put
	}
	return item.Get
}

// documented is a path of the document. There, what the router calls the rest of a path is called as any other part of one.
func (a *API) documented(path string) *huma.PathItem {
	paths := a.huma.OpenAPI().Paths
	item, name := paths[path], strings.Replace(path, "...}", "}", 1)
	if name == path {
		return item
	}
	delete(paths, path)
	if one := paths[name]; one == nil {
		paths[name] = item
	} else {
		one.Get, one.Put, one.Delete = cmp.Or(item.Get, one.Get), cmp.Or(item.Put, one.Put), cmp.Or(item.Delete, one.Delete)
	}
	return paths[name]
}

// wantsJSON refuses a caller who does not take JSON (406).
func (a *API) wantsJSON(c huma.Context, next func(huma.Context)) {
	if negotiate(c.Header("Accept"), formJSON, "application/problem+json") == "" {
		_ = huma.WriteErr(a.huma, c, http.StatusNotAcceptable, "this answers with "+formJSON)
		return
	}
	next(c)
}

// schema is the schema of a type, by reference where it has a name.
func schema[T any](a *API) *huma.Schema { return a.schemas().Schema(reflect.TypeFor[T](), true, "") }

// OpenAPI is the document of the API, indented, the same at every call.
func (a *API) OpenAPI() ([]byte, error) {
	text, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return nil, err
	}
	return indent(text)
}
