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

// route is what is to be known of an operation before it is carried out.
type route struct {
	tagged bool // a GET whose answer has an ETag, and 304
	tells  bool // a write that answers with the resource, and so with its ETag
	sent   bool // a write whose body is the resource
	own    bool // it compares conditions itself, in the commit of what it does
	adds   bool // it takes If-None-Match: only if nothing is there

	farewell farewell
}

// tagOf is the ETag of an answer of JSON: whatever changes in it makes another one.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// tagOfJSON is the ETag of what is answered as JSON.
func tagOfJSON(v any) (string, error) {
	var out bytes.Buffer
	err := writeJSON(&out, v)
	return tagOf(out.Bytes()), err
}

// contentTag is the ETag of a file: the SHA-256 of its bytes, whole, so that whoever has the bytes has the tag.
func contentTag(content []byte) string { return `"` + hash(content) + `"` }

// tags reads a header of ETags. any: it is *, which is whatever there is.
func tags(header string) (list []string, any bool) {
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

// Conditions are what a write can ask for (H6).
type Conditions struct {
	IfMatch     string `header:"If-Match" doc:"Only if it still has this ETag; * is any, but something."`
	IfNoneMatch string `header:"If-None-Match" enum:"*" doc:"* is: only if nothing is there."`
}

// given reports whether there are any.
func (c Conditions) given() bool { return c.IfMatch != "" || c.IfNoneMatch != "" }

// superseded reports whether a write that was begun before, and wanted no condition, need not be done: what it would write was
// written since it was begun. If it had its effect then, somebody has written over it, and that stands; and if it had none, it
// is as if it had been done right before. So no write undoes a later one, however often it is sent.
func (c Conditions) superseded(ctx context.Context, written time.Time) bool {
	req := requestOf(ctx)
	return req.again && !c.given() && !written.Before(req.at)
}

// allow says whether a write may be done to what has a tag; an empty tag is nothing (412).
func (c Conditions) allow(tag string) error {
	if c.IfNoneMatch != "" && c.IfNoneMatch != "*" {
		return invalid("header.If-None-Match", "only * goes with a write")
	}
	if c.IfNoneMatch == "*" && tag != "" {
		return failedCondition("it is there already")
	}
	return allowed(c.IfMatch, tag)
}

// allowed is allow for If-Match. A weak tag never matches: it does not say that the bytes are the same.
func allowed(ifMatch, tag string) error {
	if ifMatch == "" {
		return nil
	}
	if tag == "" {
		return failedCondition("nothing is there")
	}
	list, any := tags(ifMatch)
	for _, one := range list {
		any = any || one == tag
	}
	if !any {
		return failedCondition("it changed since you read it, and has the ETag " + tag + " now")
	}
	return nil
}

func failedCondition(why string) error {
	return &Problem{Status: http.StatusPreconditionFailed, Detail: why + "; read it again before you decide"}
}

// fresh reports whether a reader has what there is, by If-None-Match.
func fresh(header, tag string) bool {
	list, any := tags(header)
	for _, one := range list {
		any = any || strings.TrimPrefix(one, "W/") == tag
	}
	return any
}

// showTagged answers a GET with its ETag, or with 304 where the reader has it already.
func (a *API) showTagged(w http.ResponseWriter, r *http.Request) {
	seen := &recorder{header: w.Header()}
	a.mux.ServeHTTP(seen, r)
	if seen.status == http.StatusOK {
		tag := tagOf(seen.body.Bytes())
		w.Header().Set("ETag", tag)
		if next := nextPage(r.URL, seen.body.Bytes()); next != "" {
			w.Header().Set("Link", "<"+next+`>; rel="next"`)
		}
		if fresh(r.Header.Get("If-None-Match"), tag) {
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.WriteHeader(seen.status)
	_, _ = w.Write(seen.body.Bytes()) // a client that is gone asks again
}

// nextCursor is the end of a list that goes on.
var nextCursor = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\],"next":"([A-Za-z0-9_-]+)"}\n$`) })

// nextPage is where the list goes on of which a body is a page; empty: nowhere, or it is no list.
func nextPage(at *url.URL, body []byte) string {
	if !bytes.HasPrefix(body, []byte(`{"items":[`)) {
		return ""
	}
	found := nextCursor().FindSubmatch(body[max(0, len(body)-4096):])
	if found == nil {
		return ""
	}
	query, place := at.Query(), "cursor"
	if strings.HasPrefix(at.Path, "/v1/tasks/") { // the messages of a task go on by their ids
		place = "after"
	}
	query.Set(place, string(found[1]))
	return at.EscapedPath() + "?" + query.Encode()
}

// target returns the path of the resource that a write is about, if it can be read: that of the write, or of what an act is
// done to. Empty: there is none.
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

// onCondition carries a write out, if what it is about is as If-Match says. What writes to one resource here waits for whoever
// compares it, so that nothing is lost between both; what others do to it meanwhile is for the operation's own commit to see.
func (a *API) onCondition(w http.ResponseWriter, r *http.Request, pattern string) {
	known, target := a.routes[pattern], a.target(r, pattern)
	condition, other := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if r.Header.Values(name) != nil && strings.TrimSpace(r.Header.Get(name)) == "" { // who sends it means one
			a.refuse(w, r, invalid("header."+name, "it is empty; leave it out, or name an ETag"))
			return
		}
	}
	switch {
	case known.own && (other == "" || known.adds):
	case other != "":
		a.refuse(w, r, invalid("header.If-None-Match", "this operation takes none"))
		return
	case target == "" && condition != "":
		a.refuse(w, r, invalid("header.If-Match", "this operation takes none: it is about nothing that has an ETag"))
		return
	case target != "":
		defer a.locks.take(target, condition != "")()
		if condition != "" {
			if err := a.unchanged(r, target, condition); err != nil {
				a.refuse(w, r, err)
				return
			}
		}
	}
	a.mux.ServeHTTP(w, r)
}

// unchanged reads a resource and compares its ETag. What cannot be read is for the operation to tell.
func (a *API) unchanged(r *http.Request, target, condition string) error {
	get, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	seen := &recorder{header: http.Header{}}
	a.mux.ServeHTTP(seen, get)
	if seen.status != http.StatusOK {
		return nil
	}
	return allowed(condition, tagOf(seen.body.Bytes()))
}

// tagAnswer says the ETag of the answer to a write, which may be one that was kept.
func (a *API) tagAnswer(w http.ResponseWriter, r *http.Request, pattern string, kept Request) {
	if kept.Status < 200 || kept.Status > 299 {
		return
	}
	switch known := a.routes[pattern]; {
	case known.sent:
		w.Header().Set("ETag", contentTag(requestOf(r.Context()).body))
	case known.tells:
		w.Header().Set("ETag", tagOf(kept.Body))
	}
}

// locks are the resources that are written to.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock // guarded by mu
}

// lock is held by one who compares, or by any number of others.
type lock struct {
	sync.RWMutex
	users int // guarded by locks.mu
}

// take waits for a resource, and returns how it is let go.
func (l *locks) take(name string, alone bool) (release func()) {
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

// describeConditions says in the document which operations have an ETag, and which take conditions.
func (a *API) describeConditions() {
	text := &huma.Schema{Type: huma.TypeString}
	tag := map[string]*huma.Param{"ETag": {Description: "Of what is answered.", Schema: text}}
	problem := map[string]*huma.MediaType{"application/problem+json": {Schema: schema[Problem](a)}}
	for path, item := range a.huma.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			known := a.routes[method+" "+op.Path]
			if known.tagged {
				op.Parameters = append(op.Parameters, &huma.Param{Name: "If-None-Match", In: "header", Schema: text, Description: "The ETag of what you have: 304 if it is that still."})
				op.Responses["304"] = &huma.Response{Description: "You have it.", Headers: tag}
			}
			if known.tagged || known.tells || known.sent {
				for status, response := range op.Responses {
					if strings.HasPrefix(status, "2") {
						response.Headers = tag
					}
				}
			}
			if method != "GET" && !known.own && a.about(method, path) {
				op.Parameters = append(op.Parameters, &huma.Param{Name: "If-Match", In: "header", Schema: text, Description: "Only if what it is about still has this ETag; * is any."})
			}
			if method != "GET" && (known.own || a.about(method, path)) {
				op.Responses["412"] = &huma.Response{Description: http.StatusText(http.StatusPreconditionFailed), Content: problem}
			}
		}
	}
}

// about reports whether the writes of a method and a path of the document have a target.
func (a *API) about(method, path string) bool {
	r, err := http.NewRequestWithContext(context.Background(), method, strings.NewReplacer("{", "", "}", "").Replace(path), nil)
	return err == nil && a.target(r, method+" "+path) != ""
}
