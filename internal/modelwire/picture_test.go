package modelwire_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/modelwire"
)

// limits are small, so that small pictures reach them.
func limits() modelwire.PictureLimits {
	return modelwire.PictureLimits{Base64: 40_000, Edge: 400, Count: 4, Total: 60_000, ManyCount: 2, ManyEdge: 300, ScaledEdge: 100}
}

// noise returns a picture that cannot be compressed.
func noise(width, height int, seed uint64) *image.NRGBA {
	random := rand.New(rand.NewPCG(seed, 1))
	in := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range in.Pix {
		in.Pix[i] = byte(random.UintN(256))
	}
	return in
}

func encoded(t testing.TB, mediaType string, in image.Image) perdure.Image {
	t.Helper()
	var out bytes.Buffer
	var err error
	switch mediaType {
	case "image/png":
		err = png.Encode(&out, in)
	case "image/jpeg":
		err = jpeg.Encode(&out, in, nil)
	case "image/gif":
		err = gif.Encode(&out, in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return perdure.Image{MediaType: mediaType, Base64: base64.StdEncoding.EncodeToString(out.Bytes())}
}

func withPictures(images ...perdure.Image) perdure.Message {
	m := perdure.Text("look")
	for _, one := range images {
		m.Parts = append(m.Parts, perdure.Part{Type: perdure.PartImage, Image: &one})
	}
	return m
}

// outcome says what became of the pictures of messages: their type and size, or the words for
// them.
func outcome(t *testing.T, messages []perdure.Message) []string {
	t.Helper()
	var all []string
	add := func(one perdure.Image) {
		raw, err := base64.StdEncoding.DecodeString(one.Base64)
		if err != nil {
			t.Error(err)
		}
		size, _, err := image.DecodeConfig(bytes.NewReader(raw))
		if err != nil {
			size = image.Config{}
		}
		all = append(all, fmt.Sprintf("%s %dx%d", strings.TrimPrefix(one.MediaType, "image/"), size.Width, size.Height))
	}
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				for _, one := range p.Result.Images {
					add(one)
				}
			}
			if p.Image != nil {
				add(*p.Image)
			}
			if strings.HasPrefix(p.Text, "[A picture") {
				all = append(all, strings.TrimSuffix(strings.TrimPrefix(p.Text, "[A picture was here. It is not shown, because "), ".]"))
			}
		}
	}
	return all
}

// TestFit: a picture that a provider would refuse is scaled down, gets its own type, or is
// replaced by words.
func TestFit(t *testing.T) {
	t.Parallel()
	small := image.NewGray(image.Rect(0, 0, 50, 20))
	raw := func(kind string, text string) perdure.Image {
		return perdure.Image{MediaType: kind, Base64: base64.StdEncoding.EncodeToString([]byte(text))}
	}
	mislabelled := encoded(t, "image/png", small)
	mislabelled.MediaType = "image/jpeg"
	cases := []struct {
		name string
		in   perdure.Image
		want string
	}{
		{"fits", encoded(t, "image/png", small), "png 50x20"},
		{"another type than stated", mislabelled, "png 50x20"}, // anthropics/claude-code#11975
		{"wide", encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 500, 250))), "jpeg 100x50"},
		{"high and narrow", encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 1, 5000))), "jpeg 1x100"},
		{"large", encoded(t, "image/png", noise(120, 120, 1)), "jpeg 100x100"},
		{"large and wide", encoded(t, "image/jpeg", noise(390, 390, 2)), "jpeg 100x100"},
		{"a large GIF", encoded(t, "image/gif", noise(390, 390, 3)), "jpeg 100x100"},
		{"large and no picture", raw("image/png", "\x89PNG\r\n\x1a\n"+strings.Repeat("x", 40_000)), "it has 0.0 MB, which is more than the provider accepts, and it could not be scaled down"},
		{"no picture", raw("image/png", "\x89PNG\r\n\x1a\nxxxx"), "png 0x0"}, // the provider decides
		{"of a type that is not shown", raw("image/tiff", "II*\x00"), "its type is image/tiff, and only PNG, JPEG, GIF and WebP can be shown"},
		{"WebP under another name", raw("application/octet-stream", "RIFF....WEBPVP8 ...."), "webp 0x0"},
		{"no base64", perdure.Image{MediaType: "image/png", Base64: "?"}, "its data is not base64"},
		{"empty", perdure.Image{MediaType: "image/png"}, "its data is not base64"},
		{"base64 on lines", func() perdure.Image {
			i := encoded(t, "image/png", small)
			i.Base64 = i.Base64[:10] + "\n" + i.Base64[10:]
			return i
		}(), "png 50x20"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := modelwire.NewPictures(limits(), nil)
			before := c.in

			result := perdure.ToolResult{CallID: "a", Images: []perdure.Image{c.in}}
			ofResult := perdure.Message{Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}}}
			for _, m := range []perdure.Message{withPictures(c.in), ofResult} {
				got := outcome(t, p.Fit([]perdure.Message{m}, nil).Messages)
				if len(got) != 1 || got[0] != c.want {
					t.Errorf("%s: got %q, want %q", m.Role, got, c.want)
				}
			}
			if result.Images[0] != before {
				t.Error("the conversation was changed")
			}
		})
	}
}

// TestFitTogether: the pictures of a request have limits together; the newest are kept.
func TestFitTogether(t *testing.T) {
	t.Parallel()
	gray := func(width int) perdure.Image {
		return encoded(t, "image/png", image.NewGray(image.Rect(0, 0, width, 10)))
	}
	p := modelwire.NewPictures(limits(), nil)

	got := outcome(t, p.Fit([]perdure.Message{withPictures(gray(10), gray(11)), withPictures(gray(350)), withPictures(gray(13), gray(14))}, nil).Messages)

	want := []string{"a request can have 4 pictures", "png 11x10", "jpeg 100x2", "png 13x10", "png 14x10"} // many have a smaller limit
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	big := limits()
	big.Base64, big.Edge, big.ManyEdge = 0, 0, 0
	p = modelwire.NewPictures(big, nil)
	got = outcome(t, p.Fit([]perdure.Message{withPictures(encoded(t, "image/png", noise(100, 100, 7))), withPictures(gray(12))}, nil).Messages)
	if want := []string{"png 100x100", "png 12x10"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = outcome(t, p.Fit([]perdure.Message{withPictures(gray(12), encoded(t, "image/png", noise(130, 130, 8)))}, nil).Messages)
	if want := "the pictures of a request are too large together"; len(got) != 2 || got[1] != want || got[0] != "png 12x10" {
		t.Errorf("got %q", got)
	}
}

// TestAdapt: a refusal leaves out as little as possible: what cannot be decoded, then what was
// never accepted, then everything.
func TestAdapt(t *testing.T) {
	t.Parallel()
	log := &bytes.Buffer{}
	p := modelwire.NewPictures(modelwire.PictureLimits{}, slog.New(slog.NewTextHandler(log, nil)))
	known := encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 10, 10)))
	fresh := encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 11, 10)))
	broken := perdure.Image{MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\nxxxx"))}
	p.Answered(p.Fit([]perdure.Message{withPictures(known)}, nil))
	messages := []perdure.Message{withPictures(known, fresh, broken)}
	const no = "the provider of the model refused it"
	refusal := modelwire.NewRefused(400, []byte("bad image"))
	fit := p.Fit(messages, nil)
	for _, want := range [][]string{
		{"png 10x10", "png 11x10", "png 0x0"}, {"png 10x10", "png 11x10", no}, {"png 10x10", no, no}, {no, no, no},
	} {
		if got := outcome(t, fit.Messages); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		next, ok := p.Adapt(messages, fit, refusal, true)
		if ok != (len(fit.Sent) > 0) {
			t.Errorf("with %d pictures: got %v", len(fit.Sent), ok)
		}
		fit = next
	}

	next, _ := p.Adapt(messages, p.Fit(messages, nil), refusal, true)
	p.Answered(next)

	if got, want := outcome(t, p.Fit(messages, nil).Messages), []string{"png 10x10", "png 11x10", no}; !slices.Equal(got, want) {
		t.Errorf("afterwards: got %q, want %q", got, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 3 {
		t.Errorf("got %d warnings, want one for each picture:\n%s", n, log)
	}
}

// TestAdaptWithoutWords: if a provider does not say why a request is wrong, only pictures that it
// has never accepted are left out, and only if it calls the request itself wrong.
func TestAdaptWithoutWords(t *testing.T) {
	t.Parallel()
	p := modelwire.NewPictures(modelwire.PictureLimits{}, nil)
	known := encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 10, 10)))
	fresh := encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 11, 10)))
	p.Answered(p.Fit([]perdure.Message{withPictures(known)}, nil))
	messages := []perdure.Message{withPictures(known, fresh)}
	for _, status := range []int{401, 429, 500, 503} {
		if _, ok := p.Adapt(messages, p.Fit(messages, nil), modelwire.NewRefused(status, []byte("no")), true); ok {
			t.Errorf("status %d: something was left out", status)
		}
	}
	bad := modelwire.NewRefused(400, []byte("invalid request"))
	if _, ok := p.Adapt(messages, p.Fit(messages, nil), bad, false); ok {
		t.Error("a request that is not wrong lost a picture")
	}
	fit, ok := p.Adapt(messages, p.Fit(messages, nil), bad, true)
	if got := outcome(t, fit.Messages); !ok || got[0] != "png 10x10" || !strings.Contains(got[1], "refused") {
		t.Errorf("got %q, %v", got, ok)
	}
	if _, ok := p.Adapt(messages, fit, bad, true); ok {
		t.Error("a picture that was accepted before is left out without a reason")
	}
}

// TestLearnsCount: a provider that names how many pictures it takes gets the newest of them.
func TestLearnsCount(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"At most 2 image(s) may be provided in one request.", "Too many images provided. This model supports up to 2 images", // vLLM, Groq (earendil-works/pi#401)
		"You set image=2 (or defaulted to 2) in --limit-mm-per-prompt, but passed 3 image items in the same prompt.", "Too many images and documents: 3 + 0 > 2",
	} {
		p := modelwire.NewPictures(modelwire.PictureLimits{}, nil)
		var messages []perdure.Message
		for i := range 3 {
			messages = append(messages, withPictures(encoded(t, "image/png", image.NewGray(image.Rect(0, 0, 10+i, 10)))))
		}
		fit, ok := p.Adapt(messages, p.Fit(messages, nil), modelwire.NewRefused(400, []byte(words)), true)
		p.Answered(fit)
		for _, f := range []modelwire.Fit{fit, p.Fit(messages, nil)} {
			if got, want := outcome(t, f.Messages), []string{"a request can have 2 pictures", "png 11x10", "png 12x10"}; !ok || !slices.Equal(got, want) {
				t.Errorf("%s: got %q, %v; want %q", words, got, ok, want)
			}
		}
	}
}

// TestScaledOverWhite: what is transparent becomes white, and colors stay.
func TestScaledOverWhite(t *testing.T) {
	t.Parallel()
	in := image.NewNRGBA(image.Rect(0, 0, 500, 500))
	for y := range 250 {
		for x := range 500 {
			in.SetNRGBA(x, y, color.NRGBA{R: 200, G: 10, B: 10, A: 255})
		}
	}
	fit := modelwire.NewPictures(limits(), nil).Fit([]perdure.Message{withPictures(encoded(t, "image/png", in))}, nil)
	raw, err := base64.StdEncoding.DecodeString(fit.Messages[0].Parts[1].Image.Base64)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jpeg.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[image.Point]color.RGBA{{X: 50, Y: 20}: {R: 200, G: 10, B: 10}, {X: 50, Y: 80}: {R: 255, G: 255, B: 255}} {
		r, g, b, _ := out.At(at.X, at.Y).RGBA()
		for i, part := range []int{int(r >> 8), int(g >> 8), int(b >> 8)} {
			if off := part - []int{int(want.R), int(want.G), int(want.B)}[i]; off < -12 || off > 12 {
				t.Errorf("at %v: got %d %d %d, want %v", at, r>>8, g>>8, b>>8, want)
			}
		}
	}
}

// FuzzPictures fits any bytes as a picture: nothing panics, and what is sent is within the limits.
func FuzzPictures(f *testing.F) {
	for _, kind := range []string{"image/png", "image/jpeg", "image/gif"} {
		raw, err := base64.StdEncoding.DecodeString(encoded(f, kind, noise(20, 20, 5)).Base64)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, kind)
	}
	f.Add([]byte("RIFF....WEBP"), "image/webp")
	small := modelwire.PictureLimits{Base64: 300, Edge: 16, Count: 1, Total: 300, ScaledEdge: 150}
	f.Fuzz(func(t *testing.T, raw []byte, kind string) {
		in := perdure.Image{MediaType: kind, Base64: base64.StdEncoding.EncodeToString(raw)}
		fit := modelwire.NewPictures(small, nil).Fit([]perdure.Message{withPictures(in)}, nil)
		if out := fit.Messages[0].Parts[1].Image; out != nil && len(out.Base64) > small.Base64 {
			t.Errorf("got %d characters", len(out.Base64))
		}
	})
}
