package api_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// onePixel is an image.
var onePixel = func() string {
	text, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err)
	}
	return string(text)
}()

// upload is a request that stores an image.
func (r *rig) upload(session, name, content string) ask {
	return ask{method: http.MethodPost, path: session + "/images?filename=" + name, body: content, header: map[string]string{"Content-Type": "image/png"}}
}

// image stores an image and returns its path.
func (r *rig) image(session string) string {
	r.t.Helper()
	return session + "/images/" + string(want[engine.Image](r, 201, r.upload(session, "some.png", onePixel)).ID)
}

// TestImages: an uploaded image is read back with the type of its bytes, never as a page.
func TestImages(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()

	made := r.do(r.upload(s, "dot.html", onePixel))
	stored := read[engine.Image](t, made.body)
	path := made.header.Get("Location")
	if made.status != 201 || stored.ContentType != "image/png" || stored.Filename != "dot.html" || path != s+"/images/"+string(stored.ID) {
		t.Fatalf("got %d %s at %s", made.status, made.body, path)
	}
	if again := want[engine.Image](r, 201, r.upload(s, "dot.html", onePixel)); again.ID != stored.ID {
		t.Errorf("the same image is stored as %s and %s", stored.ID, again.ID)
	}
	got := r.do(get(path))
	for name, value := range map[string]string{"Content-Type": "image/png", "Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"} {
		if got.header.Get(name) != value {
			t.Errorf("%s: got %q, want %q", name, got.header.Get(name), value)
		}
	}
	if string(got.body) != onePixel {
		t.Errorf("got %d bytes, want %d", len(got.body), len(onePixel))
	}
	described := get(path)
	described.header = map[string]string{"Accept": "application/json"}
	if found := want[engine.Image](r, 200, described); found.ID != stored.ID || found.SizeBytes != int64(len(onePixel)) {
		t.Errorf("described as %+v", found)
	}
	if head := r.do(ask{method: http.MethodHead, path: path}); head.status != 200 || len(head.body) != 0 || head.header.Get("Content-Type") != "image/png" {
		t.Errorf("HEAD: %d, %v", head.status, head.header)
	}
	known := get(path)
	known.header = map[string]string{"If-None-Match": got.header.Get("ETag")}
	if again := r.do(known); again.status != http.StatusNotModified {
		t.Errorf("unchanged: got %d", again.status)
	}
	if all := want[struct {
		Items []engine.Image `json:"items"`
	}](r, 200, get(s+"/images")); len(all.Items) != 1 || all.Items[0].ID != stored.ID {
		t.Errorf("listed %+v", all)
	}
	if other := r.do(get(r.session() + "/images/" + string(stored.ID))); other.status != 404 {
		t.Errorf("from another session: %d %s", other.status, other.body)
	}
	if gone := r.do(ask{method: http.MethodDelete, path: path}); gone.status != 200 {
		t.Errorf("deleted: %d %s", gone.status, gone.body)
	}
	if gone := r.do(get(path)); gone.status != 404 {
		t.Errorf("read after it was deleted: %d", gone.status)
	}
}

// TestImageRefused: what is no image, or too large, is refused with what is accepted.
func TestImageRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	s := r.session()
	for name, c := range map[string]struct {
		body, word string
		status     int
	}{
		"text":      {"<svg onload=alert(1)>", "PNG, JPEG, GIF and WebP", 400},
		"21 MB":     {onePixel + strings.Repeat("\x00", 21<<20), "20971520 bytes", 413},
		"long name": {onePixel, "filename", 400},
	} {
		q := r.upload(s, "a.png", c.body)
		if name == "long name" {
			q = r.upload(s, strings.Repeat("n", 256), c.body)
		}
		if got := r.do(q); got.status != c.status || !strings.Contains(string(got.body), c.word) {
			t.Errorf("%s: got %d %s, want %d with %q", name, got.status, got.body, c.status, c.word)
		}
	}
	if empty := r.do(ask{method: http.MethodPost, path: s + "/images", header: map[string]string{"Content-Type": "image/png"}}); empty.status != 400 {
		t.Errorf("nothing: got %d %s", empty.status, empty.body)
	}
	if missing := r.do(r.upload("/v1/sessions/"+string(perdure.SessionID("session_019aa0000000700080000000000000ff")), "a.png", onePixel)); missing.status != 404 {
		t.Errorf("no session: got %d %s", missing.status, missing.body)
	}
}
