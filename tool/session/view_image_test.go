package session_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
	"github.com/perdure/perdure/tool/session"
)

// picture is a small PNG.
func picture(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestViewImage(t *testing.T) {
	t.Parallel()
	ports := portsOf(t, false)(tool.Call{Session: sessionID, ID: "call_0"})
	small := picture(t)
	kept, err := ports.Images.Create(t.Context(), tool.ImageWrite{Filename: "a.png", Data: small})
	if err != nil {
		t.Fatal(err)
	}
	large, err := ports.Images.Create(t.Context(), tool.ImageWrite{Filename: "b.png", Data: append(picture(t), make([]byte, tool.MaxImageBytes)...)})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := file.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	for path, content := range map[string][]byte{"/a.png": small, "/notes.txt": []byte("no image"), "/empty.png": nil} {
		if _, err := dir.Write(t.Context(), tool.FileWrite{Path: path, Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		args, want string
		shown      bool
	}{
		"of the session":       {`{"image_id":"` + string(kept.ID) + `"}`, `"media_type":"image/png"`, true},
		"a file":               {`{"path":"/a.png"}`, `"path":"/a.png"`, true},
		"neither":              {`{}`, "either image_id or path", false},
		"both":                 {`{"image_id":"` + string(kept.ID) + `","path":"/a.png"}`, "either image_id or path", false},
		"unknown":              {`{"image_id":"image_00000000000000000000000000000009"}`, "There is no image", false},
		"no id":                {`{"image_id":"../../etc/passwd"}`, "There is no image", false},
		"too large":            {`{"image_id":"` + string(large.ID) + `"}`, "at most 5242880 can be shown", false},
		"no such file":         {`{"path":"/none.png"}`, "File not found: /none.png", false},
		"no image":             {`{"path":"/notes.txt"}`, "Only PNG, JPEG, GIF and WebP are.", false},
		"empty":                {`{"path":"/empty.png"}`, "Only PNG, JPEG, GIF and WebP are.", false},
		"a folder":             {`{"path":"/"}`, "Is a directory: /", false},
		"outside of the files": {`{"path":"/../x.png"}`, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			call := tool.Call{Tool: "view_image", Args: []byte(c.args)}
			result := execute(t, []tool.Tool{session.ViewImage()}, call, tool.Env{Files: dir, Ports: ports})
			text := string(result.Result) + result.Error
			if !strings.Contains(text, c.want) || result.IsError() == c.shown || (len(result.Images) == 1) != c.shown {
				t.Fatalf("got %s with %d images, want %s", text, len(result.Images), c.want)
			}
			want := perdure.Image{MediaType: "image/png", ID: kept.ID} // it is stored already
			if strings.Contains(c.args, "path") {
				want = perdure.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString(small)}
			}
			if c.shown && result.Images[0] != want {
				t.Errorf("got %+v", result.Images[0])
			}
		})
	}
	for args, want := range map[string]string{
		`{"image_id":"` + string(kept.ID) + `"}`: "Image store not available in this context.",
		`{"path":"/a.png"}`:                      "Session file store not available in this context.",
	} {
		call := tool.Call{Tool: "view_image", Args: []byte(args)}
		if got := execute(t, []tool.Tool{session.ViewImage()}, call, tool.Env{}); !strings.Contains(got.Error, want) {
			t.Errorf("got %s, want %s", got.Error, want)
		}
	}
}

// TestViewImageOfAnotherSession: an id does not open the image of another session.
func TestViewImageOfAnotherSession(t *testing.T) {
	t.Parallel()
	other := portsOf(t, false)(tool.Call{Session: sessionID})
	kept, err := other.Images.Create(t.Context(), tool.ImageWrite{Filename: "a.png", Data: picture(t)})
	if err != nil {
		t.Fatal(err)
	}
	call := tool.Call{Tool: "view_image", Args: []byte(`{"image_id":"` + string(kept.ID) + `"}`)}
	got := execute(t, []tool.Tool{session.ViewImage()}, call, tool.Env{Ports: portsOf(t, false)(call)})
	if !strings.Contains(got.Error, "There is no image") || len(got.Images) != 0 {
		t.Errorf("got %+v", got)
	}
}
