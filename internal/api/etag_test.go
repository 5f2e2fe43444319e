package api_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// given adds headers to a request.
func given(q ask, header ...string) ask {
	all := maps.Clone(q.header)
	if all == nil {
		all = map[string]string{}
	}
	for i := 0; i < len(header); i += 2 {
		all[header[i]] = header[i+1]
	}
	q.header = all
	return q
}

// tag returns the ETag of the resource at a path.
func (r *rig) tag(path string) string {
	r.t.Helper()
	got := r.do(get(path))
	tag := got.header.Get("ETag")
	if got.status != 200 || len(tag) < 34 || tag[0] != '"' {
		r.t.Fatalf("%s: got %d with the ETag %q", path, got.status, tag)
	}
	return tag
}

// TestH6NotModified asks every resource that can change for what it has already.
func TestH6NotModified(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.filed("/a")
	r.do(put(s+"/values/k", `{"value":"v"}`))
	approval := "/v1/approvals/" + string(r.pay().ID)
	r.do(put("/v1/budgets/agent/b", `{"currency":"calls","limit":"1"}`))
	asking := r.asking("asking")
	changes := map[string]ask{
		s:                     {method: http.MethodPatch, path: s, body: `{"title":"new"}`},
		asking.path():         post(asking.path()+"/delivery", `{"delivery":"manual"}`),
		approval:              post(approval+"/deny", `{}`),
		s + "/files/a":        given(put(s+"/files/a?overwrite=true", "b"), "Content-Type", "text/plain"),
		s + "/values/k":       put(s+"/values/k", `{"value":"w"}`),
		"/v1/budgets/agent/b": put("/v1/budgets/agent/b", `{"currency":"calls","limit":"2"}`),
	}
	schedule := r.hourly()
	changes[schedule] = post(schedule+"/pause", `{}`)
	for _, list := range []string{"/v1/sessions", "/v1/tasks", "/v1/approvals", "/v1/schedules", "/v1/budgets", s + "/files", s + "/values", s + "/secrets", "/v1/tools"} {
		changes[list] = ask{}
	}
	for path, change := range changes {
		tag := r.tag(path)
		for header, status := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, "": 200} {
			got := r.do(given(get(path), "If-None-Match", header))
			if got.status != status || got.header.Get("ETag") != tag || status == 304 && len(got.body) != 0 {
				t.Errorf("%s with %q: got %d %v %s", path, header, got.status, got.header, got.body)
			}
		}
		if change.method == "" {
			continue
		}
		if got := r.do(change); got.status >= 300 {
			t.Errorf("%s: got %d %s", change.path, got.status, got.body)
		}
		if got := r.do(given(get(path), "If-None-Match", tag)); got.status != 200 || got.header.Get("ETag") == tag {
			t.Errorf("%s did not change: %d %s", path, got.status, got.body)
		}
	}
}

// TestH6Preconditions: what changed since it was read is not written over, nor acted upon.
func TestH6Preconditions(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.filed("/a")
	r.do(put(s+"/values/k", `{"value":"v"}`))
	r.do(put("/v1/budgets/agent/b", `{"currency":"calls","limit":"1"}`))
	schedule, approval, asking := r.hourly(), "/v1/approvals/"+string(r.pay().ID), r.asking("asking")
	file := given(put(s+"/files/a", "b"), "Content-Type", "text/plain")
	patch := ask{method: http.MethodPatch, path: s, body: `{"title":"new"}`}
	for path, writes := range map[string][]ask{ // the first of them succeeds at last
		s:                     {patch, {method: http.MethodDelete, path: s}, post(s+"/interrupt", `{}`)},
		s + "/files/a":        {file, {method: http.MethodDelete, path: s + "/files/a"}},
		s + "/values/k":       {put(s+"/values/k", `{"value":"w"}`), {method: http.MethodDelete, path: s + "/values/k"}},
		"/v1/budgets/agent/b": {put("/v1/budgets/agent/b", `{"currency":"calls","limit":"2"}`)},
		schedule:              {post(schedule+"/pause", `{}`), {method: http.MethodDelete, path: schedule}},
		approval:              {post(approval+"/deny", `{}`), post(approval+"/approve", `{}`)},
		asking.path():         {post(asking.path()+"/delivery", `{"delivery":"manual"}`), post(asking.path()+"/cancel", `{}`)},
	} {
		tag := r.tag(path)
		for _, q := range writes {
			for _, wrong := range []string{`"x"`, "W/" + tag, `"x", "y"`} {
				r.refusal(r.do(given(q, "If-Match", wrong)), 412, "precondition_failed")
			}
		}
		if now := r.tag(path); now != tag {
			t.Errorf("%s changed", path)
		}
		got := r.do(given(writes[0], "If-Match", `"x", `+tag))
		if got.status >= 300 {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
		if told := got.header.Get("ETag"); told != "" && told != r.tag(path) {
			t.Errorf("%s: sent %s, has %s", path, told, r.tag(path))
		}
		for _, q := range writes {
			r.refusal(r.do(given(q, "If-Match", tag)), 412, "precondition_failed")
		}
	}
	r.refusal(r.do(given(put(s+"/values/k", `{"value":"x"}`), "If-None-Match", "*")), 412, "precondition_failed")
	r.refusal(r.do(given(put(s+"/values/none", `{"value":"x"}`), "If-Match", "*")), 412, "precondition_failed")
	r.refusal(r.do(given(file, "If-None-Match", "*")), 412, "precondition_failed")
	r.refusal(r.do(file), 428, "precondition_required")
	if got := r.do(given(file, "If-Match", "*")); got.status != 200 {
		t.Errorf("got %d %s", got.status, got.body)
	}
	// Where a condition would not be kept, it is refused.
	r.refusal(r.do(given(post("/v1/sessions", `{"agent":{}}`), "If-Match", "*")), 400, "invalid")
	r.refusal(r.do(given(put("/v1/budgets/agent/c", `{"currency":"calls","limit":"1"}`), "If-None-Match", "*")), 400, "invalid")
	r.refusal(r.do(given(put(s+"/secrets/k", `{"value":"x"}`), "If-Match", "*")), 400, "invalid")
	r.refusal(r.do(given(put(s+"/values/k", `{"value":"x"}`), "If-None-Match", `"x"`)), 400, "invalid")
	agent, harness := r.kept("conditional"), r.layer("conditional")
	for _, q := range []ask{patch, {method: http.MethodDelete, path: agent}, {method: http.MethodDelete, path: harness}} {
		r.refusal(r.do(given(q, "If-None-Match", "*")), 400, "invalid")
	}
	r.tag(agent) // it is there still
	for _, q := range []ask{patch, put(s+"/values/k", `{"value":"x"}`), post(asking.path()+"/cancel", `{}`), {method: http.MethodDelete, path: schedule}} {
		r.refusal(r.do(given(q, "If-Match", " ")), 400, "invalid")
	}
}

// TestH6LostUpdate lets many read, add one and write back, of a value, a file, a budget and a
// title: no addition is lost.
func TestH6LostUpdate(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.filed("/n")
	one := put(s+"/files/n?overwrite=true", "0")
	if got := r.do(given(one, "Content-Type", "text/plain")); got.status != 200 {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	r.do(put(s+"/values/n", `{"value":"0"}`))
	r.do(put("/v1/budgets/agent/n", `{"currency":"calls","limit":"0"}`))
	r.do(ask{method: http.MethodPatch, path: s, body: `{"title":"0"}`})
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	for path, c := range map[string]struct {
		read  func([]byte) int
		write func(n int) ask
	}{
		s + "/files/n": {func(b []byte) int { return number(string(b)) },
			func(n int) ask { return given(put(s+"/files/n", strconv.Itoa(n)), "Content-Type", "text/plain") }},
		s + "/values/n": {func(b []byte) int { return number(read[engine.Value](t, b).Text) },
			func(n int) ask { return put(s+"/values/n", fmt.Sprintf(`{"value":"%d"}`, n)) }},
		"/v1/budgets/agent/n": {func(b []byte) int { return number(read[taskInList[budget.Standing]](t, b).Items[0].Limit.String()) },
			func(n int) ask {
				return put("/v1/budgets/agent/n", fmt.Sprintf(`{"currency":"calls","limit":"%d"}`, n))
			}},
		s: {func(b []byte) int { return number(read[engine.Session](t, b).Title) },
			func(n int) ask { return ask{method: http.MethodPatch, path: s, body: fmt.Sprintf(`{"title":"%d"}`, n)} }},
	} {
		const writers, additions = 4, 5
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for done := 0; done < additions; {
					got := r.do(get(path))
					switch wrote := r.do(given(c.write(c.read(got.body)+1), "If-Match", got.header.Get("ETag"))); wrote.status {
					case 200:
						done++
					case 412:
					default:
						t.Errorf("%s: got %d %s", path, wrote.status, wrote.body)
						return
					}
				}
			})
		}
		group.Wait()
		if n := c.read(r.do(get(path)).body); n != writers*additions {
			t.Errorf("%s: %d after %d additions", path, n, writers*additions)
		}
	}
}

// TestH5Link follows the header through lists while entries are added before, after and between
// those already shown.
func TestH5Link(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	add := func(prefix string, i int) {
		body := `{"value":"v"}`
		if got := r.do(put(fmt.Sprintf("%s/values/%s%03d", s, prefix, i), body)); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	for i := range 20 {
		add("m", i)
	}
	storm := 0
	seen := r.follow(s+"/values?limit=3", func(item map[string]any) string { return fmt.Sprint(item["key"]) }, func() {
		storm++
		add("a", storm)
		add("m", 100+storm)
		add("z", storm)
	})
	for i := range 20 {
		if n := seen[fmt.Sprintf("m%03d", i)]; n != 1 {
			t.Errorf("m%03d was shown %d times", i, n)
		}
	}
	if seen["z001"] != 1 || slices.Max(slices.Collect(maps.Values(seen))) != 1 || storm < 8 {
		t.Errorf("after %d pages: %v", storm, seen)
	}
	cursor := want[taskInList[engine.ValueStat]](r, 200, get(s+"/values?limit=3")).Next
	for _, path := range []string{s + "/secrets", s + "/files", r.session() + "/values", s + "/values?prefix=m"} {
		path += "?cursor="
		if strings.Contains(path, "?prefix") {
			path = strings.Replace(path, "m?", "m&", 1)
		}
		r.refusal(r.do(get(path+cursor)), 400, "invalid")
	}
}

// TestH5Storm walks lists while others add to them: none that was there before is skipped, and none
// comes twice.
func TestH5Storm(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	add := map[string]func(){
		"/v1/sessions":  func() { r.session() },
		"/v1/schedules": func() { r.hourly() },
		s + "/messages": func() { r.say(s, "hi") },
	}
	names := 0
	add[s+"/files"] = func() {
		names++
		r.do(given(put(fmt.Sprintf("%s/files/f%d", s, names), "x"), "Content-Type", "text/plain"))
	}
	add[s+"/secrets"] = func() {
		names++
		r.do(put(fmt.Sprintf("%s/secrets/s%d", s, names), `{"value":"x"}`))
	}
	for path, more := range add {
		id := func(item map[string]any) string {
			return fmt.Sprint(item["id"], item["path"], item["name"], item["seq"])
		}
		for range 12 {
			more()
		}
		r.rest(s) // an answer that is being written is shown as it stands, and may be another in the end
		before := r.follow(path+"?limit=200", id, func() {})
		seen := r.follow(path+"?limit=5", id, more)
		for one := range before {
			if seen[one] != 1 {
				t.Errorf("%s: %s was shown %d times", path, one, seen[one])
			}
		}
		if slices.Max(slices.Collect(maps.Values(seen))) != 1 {
			t.Errorf("%s: %v", path, seen)
		}
	}
}

// follow walks a list by its Link headers, and counts how often each item was shown. between is
// called after each page.
func (r *rig) follow(path string, id func(map[string]any) string, between func()) map[string]int {
	r.t.Helper()
	seen := map[string]int{}
	for pages := 0; path != ""; pages++ {
		got := r.do(get(path))
		if got.status != 200 || pages > 100 {
			r.t.Fatalf("%s: got %d %s", path, got.status, got.body)
		}
		page := read[taskInList[map[string]any]](r.t, got.body)
		for _, item := range page.Items {
			seen[id(item)]++
		}
		link := got.header.Get("Link")
		next, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		if ok != (page.Next != "") {
			r.t.Fatalf("%s: Link is %q, next %q", path, link, page.Next)
		}
		path = ""
		if ok {
			path = next
			between()
		}
	}
	return seen
}
