package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// route holds what the API needs to know about an operation before it runs.
type route struct {
	tagged           bool // a GET whose response has an ETag and may be 304
	returnsResource  bool // a write that answers with the resource and its ETag
	bodyIsResource   bool // a write whose body is the resource
	checksConditions bool // the operation checks conditions itself, in its own commit
	allowsCreateOnly bool // the operation accepts If-None-Match: *

	// copies of the operation's fields
	class       overloadClass
	maxBody     int64
	media       string
	secret      bool
	open        bool
	deprecation deprecation
}

// tagOf returns the ETag of a JSON response. Every change of the body changes it.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// tagOfJSON returns the ETag of v as written in a JSON response.
func tagOfJSON(v any) (string, error) {
	var out bytes.Buffer
	err := writeJSON(&out, v)
	return tagOf(out.Bytes()), err
}

// contentTag returns the ETag of a file: the full SHA-256 of its bytes, so that a client can
// compute it from the content.
func contentTag(content []byte) string { return `"` + hash(content) + `"` }

// parseTags parses a header of ETags. any reports *, which matches every existing resource.
func parseTags(header string) (list []string, any bool) {
	for one := range strings.SplitSeq(header, ",") {
		switch one = strings.TrimSpace(one); one {
		case "":
		case "*":
			any = true
		default:
			list = append(list, one)
		}
	}
	return list, any
}

// Conditions are the conditional headers of a write (H6).
type Conditions struct {
	IfMatch     string `header:"If-Match" doc:"Only if the resource still has this ETag; * matches any existing resource."`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"*: only if the resource does not exist."`
}

// given reports whether a condition was sent.
func (c Conditions) given() bool { return c.IfMatch != "" || c.IfNoneMatch != "" }

// superseded reports whether an unconditional write that was started before need not run again,
// because the resource was written after the first attempt started. If the first attempt took
// effect, a later write replaced its value, and that write stands. If it did not, the result is the
// same as if it had run just before the later write. So a repeated write never undoes a later one.
func (c Conditions) superseded(ctx context.Context, written time.Time) bool {
	req := requestOf(ctx)
	return req.repeated && !c.given() && !written.Before(req.at)
}

// allow checks the conditions of a write against the ETag of the resource; an empty tag means that
// it does not exist. The error is a 412.
func (c Conditions) allow(tag string) error {
	if c.IfNoneMatch != "" && c.IfNoneMatch != "*" {
		return invalid("header.If-None-Match", "a write accepts only *")
	}
	if c.IfNoneMatch == "*" && tag != "" {
		return failedCondition("it already exists")
	}
	return checkIfMatch(c.IfMatch, tag)
}

// checkIfMatch checks If-Match. A weak tag never matches, because it does not promise identical
// bytes.
func checkIfMatch(ifMatch, tag string) error {
	if ifMatch == "" {
		return nil
	}
	if tag == "" {
		return failedCondition("it does not exist")
	}
	list, any := parseTags(ifMatch)
	for _, one := range list {
		any = any || one == tag
	}
	if !any {
		return failedCondition("it has changed since you read it; its ETag is now " + tag + "")
	}
	return nil
}

func failedCondition(why string) error {
	return &Problem{Status: http.StatusPreconditionFailed, Detail: why + "; read it again, then decide"}
}

// notModified reports whether If-None-Match says that the reader already has the current version.
func notModified(header, tag string) bool {
	list, any := parseTags(header)
	for _, one := range list {
		any = any || strings.TrimPrefix(one, "W/") == tag
	}
	return any
}

// showTagged serves a GET with an ETag, or with 304 if the client already has that version.
func (a *API) showTagged(w http.ResponseWriter, r *http.Request) {
	seen := &recorder{header: w.Header()}
	a.mux.ServeHTTP(seen, r)
	if seen.status == http.StatusOK {
		tag := tagOf(seen.body.Bytes())
		w.Header().Set("ETag", tag)
		if next := nextPage(r.URL, seen.body.Bytes()); next != "" {
			w.Header().Set("Link", "<"+next+`>; rel="next"`)
		}
		if notModified(r.Header.Get("If-None-Match"), tag) {
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(seen.status)
	_, _ = w.Write(seen.body.Bytes()) // the client may be gone; it can ask again
}

// nextCursor matches the end of a page that has a next one.
var nextCursor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\],"next":"([A-Za-z0-9_-]+)"}\n$`) })

// nextPage returns the URL of the page after body, or "" if body is the last page or not a list.
func nextPage(at *url.URL, body []byte) string {
	if !bytes.HasPrefix(body, []byte(`{"items":[`)) {
		return ""
	}
	found := nextCursor().FindSubmatch(body[max(0, len(body)-4096):])
	if found == nil {
		return ""
	}
	query, place := at.Query(), "cursor"
	if strings.HasPrefix(at.Path, "/v1/tasks/") { // the messages of a task are paged by id
		place = "after"
	}
	query.Set(place, string(found[1]))
	return at.EscapedPath() + "?" + query.Encode()
}

// target returns the path of the readable resource that a write affects: the path of the write
// itself or, for an action such as /cancel, its parent. Empty: there is none.
func (a *API) target(r *http.Request, pattern string) string {
	_, path, _ := strings.Cut(pattern, " ")
	if r.Method != http.MethodPost {
		if a.routes["GET "+path].tagged {
			return r.URL.EscapedPath()
		}
		return ""
	}
	path = path[:strings.LastIndex(path, "/")]
	if strings.HasSuffix(path, "}") && a.routes["GET "+path].tagged {
		escaped := r.URL.EscapedPath()
		return escaped[:strings.LastIndex(escaped, "/")]
	}
	return ""
}

// checkConditions runs a write if its If-Match condition holds. A conditional write holds an
// exclusive lock on the resource, so that no other write through this API comes between the
// comparison and the write. Changes by the engine itself are detected only by operations that
// compare again in their own commit (route.own).
func (a *API) checkConditions(w http.ResponseWriter, r *http.Request, pattern string) {
	known, target := a.routes[pattern], a.target(r, pattern)
	condition, other := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	for _, name := range []string{"If-Match", "If-None-Match"} {
		// An empty header is a mistake of the client.
		if r.Header.Values(name) != nil && strings.TrimSpace(r.Header.Get(name)) == "" {
			a.refuse(w, r, invalid("header."+name, "the header is empty; omit it or send an ETag"))
			return
		}
	}
	switch {
	case known.checksConditions && (other == "" || known.allowsCreateOnly):
	case other != "":
		a.refuse(w, r, invalid("header.If-None-Match", "this operation does not accept the header"))
		return
	case target == "" && condition != "":
		a.refuse(w, r, invalid("header.If-Match", "this operation does not accept the header: it affects no resource with an ETag"))
		return
	case target != "":
		defer a.locks.lock(target, condition != "")()
		if condition != "" {
			if err := a.checkUnchanged(r, target, condition); err != nil {
				a.refuse(w, r, err)
				return
			}
		}
	}
	a.mux.ServeHTTP(w, r)
}

// checkUnchanged reads a resource and compares its ETag. If the read fails, it returns nil: the
// operation then reports why.
func (a *API) checkUnchanged(r *http.Request, target, condition string) error {
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	seen := &recorder{header: http.Header{}}
	a.mux.ServeHTTP(seen, get)
	if seen.status != http.StatusOK {
		return nil
	}
	return checkIfMatch(condition, tagOf(seen.body.Bytes()))
}

// tagAnswer sets the ETag of the response to a write. The response may be a stored one.
func (a *API) tagAnswer(w http.ResponseWriter, r *http.Request, pattern string, kept Request) {
	if kept.Status < 200 || kept.Status > 299 {
		return
	}
	switch known := a.routes[pattern]; {
	case known.bodyIsResource:
		w.Header().Set("ETag", contentTag(requestOf(r.Context()).body))
	case known.returnsResource:
		w.Header().Set("ETag", tagOf(kept.Body))
	}
}

// locks are the resources with a write in progress.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock // guarded by mu
}

// lock is held exclusively by a conditional write and shared by all other writes.
type lock struct {
	sync.RWMutex
	users int // guarded by locks.mu
}

// lock locks a resource and returns the function that releases it. alone asks for the exclusive
// lock.
func (l *locks) lock(name string, alone bool) (release func()) {
	l.mu.Lock()
	one := l.held[name]
	if one == nil {
		one = &lock{}
		l.held[name] = one
	}
	one.users++
	l.mu.Unlock()
	unlock := one.RUnlock
	if alone {
		unlock = one.Unlock
		one.Lock()
	} else {
		one.RLock()
	}
	return func() {
		unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, name)
		}
	}
}

// describeConditions documents which operations have an ETag and which accept conditions.
func (a *API) describeConditions() {
	text := &huma.Schema{Type: huma.TypeString}
	tag := map[string]*huma.Param{"ETag": {Description: "The ETag of the response.", Schema: text}}
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: schema[Problem](a)}}
	for path, item := range a.huma.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			known := a.routes[method+" "+op.Path]
			if known.tagged {
				op.Parameters = append(op.Parameters, &huma.Param{Name: "If-None-Match", In: "header", Schema: text, Description: "The ETag of the version that you have. The response is 304 if it is still current."})
				op.Responses["304"] = &huma.Response{Description: "Not modified.", Headers: tag}
			}
			if known.tagged || known.returnsResource || known.bodyIsResource {
				for status, response := range op.Responses {
					if strings.HasPrefix(status, "2") {
						response.Headers = tag
					}
				}
			}
			if method != "GET" && !known.checksConditions && a.hasTarget(method, path) {
				op.Parameters = append(op.Parameters, &huma.Param{Name: "If-Match", In: "header", Schema: text, Description: "Only if the affected resource still has this ETag; * matches any."})
			}
			if method != "GET" && (known.checksConditions || a.hasTarget(method, path)) {
				op.Responses["412"] = &huma.Response{Description: http.StatusText(http.StatusPreconditionFailed), Content: problem}
			}
		}
	}
}

// hasTarget reports whether writes with this method and documented path have a target.
func (a *API) hasTarget(method, path string) bool {
	r, err := http.NewRequestWithContext(context.Background(), method, strings.NewReplacer("{", "", "}", "").Replace(path), nil)
	return err == nil && a.target(r, method+" "+path) != ""
}
