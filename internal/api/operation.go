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
	"github.com/perdure/perdure/engine"
)

// operation describes one operation for the OpenAPI document and the router.
type operation struct {
	id, method, path string
	summary          string
	status           int    // status on success; 0: 200
	errors           []int  // statuses in addition to those of every operation
	open             bool   // public: no token is required
	policy           policy // the scope that the token must have
	class            overloadClass
	maxBody          int64  // bytes of the request body; 0: Config.MaxBody
	media            string // media type of the request body; empty: JSON
	secret           bool   // the request contains a secret, or names one
	anyQuery         bool   // the query may have parameters that this operation does not know
	// Media types on success, unless it is JSON of the output type only.
	forms       map[string]*huma.MediaType
	route       route
	deprecation deprecation // announces the removal of the operation
}

// document returns the OpenAPI document without operations, and the settings of huma.
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
				Description: "The HTTP API of Perdure: sessions, messages, events, calls, approvals, tasks, schedules and tools. New fields and values may be added at any time; clients must ignore unknown ones.",
			},
			Components: &huma.Components{
				Schemas:         registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer"}},
			},
		},
		// "json" also covers problem+json.
		Formats: map[string]huma.Format{formJSON: format, "json": format}, DefaultFormat: formJSON,
		RejectUnknownQueryParameters: true,
	}
	// In responses; closeRequests closes the schemas of requests again.
	cfg.AllowAdditionalPropertiesByDefault = true
	return cfg
}

// schemaName returns the schema name of a type. Two of our types are called File, and two Image.
func schemaName(t reflect.Type, hint string) string {
	switch t {
	case reflect.TypeFor[agent.File]():
		return "InitialFile"
	case reflect.TypeFor[engine.Image]():
		return "StoredImage"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// closeRequests documents that the strict decoder refuses unknown fields.
func (a *API) closeRequests() {
	for _, name := range []string{"NewSession", "Agent", "NewMessage", "NewPart", "Image", "Interruption", "Resolution", "Cancellation", "DirectCall",
		"Approving", "Denying", "Detaching", "ClientAnswer", "NewBudget", "Resuming", "Drain", "NewTaskMessage", "InputAnswer", "NewDelivery", "NewFork", "HostCallRequest",
		"NewSchedule", "ScheduleAction", "Pausing", "Backfilling", "ScheduleAct", "NewValue", "NewSecret", "FileMove", "TaskFilter",
		"NewBulkCancel", "Retrying", "SessionChange", "NewToken", "NewWebhook", "WebhookChange", "WebhookAct", "MachineAct", "ConnectionAct", "NewConnection", "ConnectionStart", "ConnectionAnswer", "PermissionRule", "NewProvider", "ProviderAct", "NewDefaultModel", "NewAgent",
		"InitialFile", "Limit", "Limits", "Approvals", "NewQuery", "PaymentResolution"} {
		a.schemas().Map()[name].AdditionalProperties = false
	}
}

// nameSubject adds the field of a budget that huma leaves out: it keeps one of two Go fields ID, of
// which one is the subject.
func (a *API) nameSubject() {
	s := a.schemas().Map()["Standing"]
	s.Properties["subject"] = &huma.Schema{Type: huma.TypeString, Description: "The id or name of the session, agent, user or org."}
	s.Required = append(s.Required, "subject")
	s.PrecomputeMessages()
}

// writeJSON writes JSON without escaping < and >.
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

// write registers a POST with a body of type B. An optional body may be omitted; the operation then
// gets the zero value of B.
func write[I, B, O any](a *API, o operation, body body[B], do func(context.Context, *I, B) (*O, error)) {
	o.method = http.MethodPost
	replace(a, o, body, do)
}

// replace registers an operation with a JSON body, by default a PUT.
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

// writeAs registers an operation that reads its body itself, by default a PUT.
func writeAs[I, O any](a *API, o operation, body *huma.RequestBody, do func(context.Context, *I) (*O, error)) {
	if o.method == "" {
		o.method = http.MethodPut
	}
	mutate(a, o, do).RequestBody = body
}

// erase registers a DELETE. It has no body.
func erase[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) {
	o.method = http.MethodDelete
	mutate(a, o, do)
}

// mutate registers a write and returns it for the OpenAPI document.
func mutate[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) *huma.Operation {
	o.errors = append(o.errors, http.StatusRequestTimeout, http.StatusConflict, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusServiceUnavailable, http.StatusInsufficientStorage)
	registered := register(a, o, do)
	known := a.routes[o.method+" "+o.path]
	known.allowsCreateOnly = slices.ContainsFunc(registered.Parameters, func(p *huma.Param) bool { return p.Name == "If-None-Match" })
	a.routes[o.method+" "+o.path] = known
	registered.Parameters = append(registered.Parameters,
		&huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "1 to 255 visible ASCII characters. A repeated request with the same key and body gets the first response again.",
		},
		&huma.Param{
			Name: "Perdure-Actor", In: "header", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{actorUser, actorOperator}},
			Description: "On the Unix socket: the actor. Ignored over TCP, where the token determines it.",
		})
	return registered
}

// body describes a request body in the OpenAPI document.
type body[B any] struct {
	example  B
	optional bool
}

func (a *API) schemas() huma.Registry { return a.huma.OpenAPI().Components.Schemas }

// register registers an operation with huma, with its errors as problems, and returns it for the
// OpenAPI document.
func register[I, O any](a *API, o operation, do func(context.Context, *I) (*O, error)) *huma.Operation {
	op := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Summary: o.summary, DefaultStatus: orDefault(o.status, http.StatusOK),
		Description: o.deprecation.text(), Deprecated: o.deprecation.since != "", Responses: map[string]*huma.Response{},
		SkipValidateParams: o.anyQuery,
	}
	a.policies[o.method+" "+o.path] = ""
	if !o.open {
		// An operation without a policy is restricted to administrators.
		a.policies[o.method+" "+o.path] = orDefault(o.policy, administers)
		op.Security = []map[string][]string{{"bearer": scopesOf(o.policy)}}
		o.errors = append(o.errors, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	}
	if o.forms != nil {
		op.Responses[strconv.Itoa(op.DefaultStatus)] = &huma.Response{Description: http.StatusText(op.DefaultStatus), Content: o.forms}
	} else {
		op.Middlewares = huma.Middlewares{a.acceptsOnlyJSON}
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
	o.route.open = o.open
	o.route.class, o.route.maxBody, o.route.media, o.route.secret, o.route.deprecation = o.class, o.maxBody, o.media, o.secret, o.deprecation
	if o.class == isProbe {
		a.probes[o.path] = true
	}
	a.routes[o.method+" "+o.path] = o.route
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := do(ctx, in)
		if err != nil {
			p := problemOf(ctx, err)
			a.logCause(ctx, p)
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

// documented returns the path item of an operation. The OpenAPI document writes the wildcard
// {path...} of the router as {path}, and merges it with other operations on that path.
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

// acceptsOnlyJSON refuses a request that does not accept JSON (406).
func (a *API) acceptsOnlyJSON(c huma.Context, next func(huma.Context)) {
	if negotiate(c.Header("Accept"), formJSON, "application/problem+json") == "" {
		_ = huma.WriteErr(a.huma, c, http.StatusNotAcceptable, "supported media types: "+formJSON)
		return
	}
	next(c)
}

// schema returns the schema of a type, as a reference if the type has a name.
func schema[T any](a *API) *huma.Schema { return a.schemas().Schema(reflect.TypeFor[T](), true, "") }

// OpenAPI returns the OpenAPI document, indented. It is the same on every call.
func (a *API) OpenAPI() ([]byte, error) {
	text, err := json.Marshal(a.huma.OpenAPI())
	if err != nil {
		return nil, err
	}
	return indent(text)
}
