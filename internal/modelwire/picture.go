package modelwire

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"image"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure"
)

// PictureLimits are what a provider is known to accept. 0: no limit is known.
type PictureLimits struct {
	Base64 int // characters of one picture
	Edge   int // pixels of its longer edge
	Count  int // pictures of one request
	Total  int // characters of all pictures of a request

	// More than ManyCount pictures of a request may have ManyEdge pixels only.
	ManyCount, ManyEdge int

	ScaledEdge int // longer edge of a picture that must be scaled down
}

// pictureTypes are the media types that all providers with vision accept.
const pictureTypes = "image/png image/jpeg image/gif image/webp"

// PictureKey identifies a picture by its content.
type PictureKey [sha256.Size]byte

// maxRemembered bounds how many pictures are remembered. Then all of them are forgotten, which
// costs at most another refusal.
const maxRemembered = 1000

// Pictures fits the pictures of requests to a provider, and remembers which of them it refused. It
// is safe for concurrent use.
type Pictures struct {
	log *slog.Logger

	mu       sync.Mutex
	limits   PictureLimits                // guarded by mu; the number of pictures is learnt
	accepted map[PictureKey]bool          // guarded by mu; pictures of requests that were answered
	refused  map[PictureKey]bool          // guarded by mu; pictures without which a request was answered
	scaled   map[PictureKey]perdure.Image // guarded by mu; pictures that were scaled down, without data if that failed; at most maxScaled
	logged   map[PictureKey]bool          // guarded by mu; pictures of which the log says that they are left out
}

// maxScaled bounds the pictures that are kept scaled down, which is a few megabytes.
const maxScaled = 16

// NewPictures returns pictures for these limits. log receives a warning for each picture that is
// left out; nil: nothing is logged.
func NewPictures(limits PictureLimits, log *slog.Logger) *Pictures {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Pictures{
		limits: limits, log: log, accepted: map[PictureKey]bool{}, refused: map[PictureKey]bool{},
		scaled: map[PictureKey]perdure.Image{}, logged: map[PictureKey]bool{},
	}
}

// Fit is the pictures of one request.
type Fit struct {
	Messages []perdure.Message // with the pictures that are sent, and words for the others
	Sent     []PictureKey      // pictures that are sent
	Left     []PictureKey      // pictures that are left out because of a refusal of this request

	suspects []PictureKey // of Sent: pictures that cannot be decoded here
}

// Fit returns messages that the provider should accept: a picture that is too large is scaled
// down, and one that cannot be shown is replaced by words that say why. leave are pictures that a
// refusal of this request leaves out. The given messages are not changed; they keep their
// pictures.
func (p *Pictures) Fit(messages []perdure.Message, leave []PictureKey) Fit {
	f := Fit{Messages: slices.Clone(messages), Left: leave}
	p.mu.Lock()
	r := room{limits: p.limits, left: leave}
	p.mu.Unlock()
	for _, m := range messages {
		r.count += countPictures(m)
	}
	for i, m := range slices.Backward(messages) { // the newest first: they matter most
		if countPictures(m) == 0 {
			continue
		}
		f.Messages[i].Parts = p.fitParts(&f, &r, m.Parts)
	}
	return f
}

func countPictures(m perdure.Message) int {
	n := 0
	for _, part := range m.Parts {
		if part.Image != nil {
			n++
		}
		if part.Result != nil {
			n += len(part.Result.Images)
		}
	}
	return n
}

// fitParts returns the parts of a message with fitting pictures. The words for a picture of a
// result follow the result.
func (p *Pictures) fitParts(f *Fit, r *room, parts []perdure.Part) []perdure.Part {
	var fitted [][]perdure.Part
	for _, part := range slices.Backward(parts) {
		switch {
		case part.Image != nil:
			own, word := p.fit(f, r, *part.Image)
			if word != "" {
				part = perdure.Part{Type: perdure.PartText, Text: word}
			} else {
				part.Image = &own
			}
			fitted = append(fitted, []perdure.Part{part})
		case part.Result != nil && len(part.Result.Images) > 0:
			fitted = append(fitted, p.fitResult(f, r, part))
		default:
			fitted = append(fitted, []perdure.Part{part})
		}
	}
	slices.Reverse(fitted)
	return slices.Concat(fitted...)
}

func (p *Pictures) fitResult(f *Fit, r *room, part perdure.Part) []perdure.Part {
	result := *part.Result
	result.Images = nil
	var texts []perdure.Part
	for _, image := range part.Result.Images {
		own, word := p.fit(f, r, image)
		if word != "" {
			texts = append(texts, perdure.Part{Type: perdure.PartText, Text: word})
			continue
		}
		result.Images = append(result.Images, own)
	}
	part.Result = &result
	return append([]perdure.Part{part}, texts...)
}

// room is what a request has left for pictures.
type room struct {
	limits PictureLimits
	left   []PictureKey
	count  int // pictures of the whole request
	sent   int
	total  int // characters so far
}

// edge returns the longest edge of a picture of this request; 0: no limit is known.
func (r *room) edge() int {
	if r.limits.ManyCount > 0 && r.count > r.limits.ManyCount {
		return r.limits.ManyEdge
	}
	return r.limits.Edge
}

// fit returns a picture that is accepted, or the words that replace it.
func (p *Pictures) fit(f *Fit, r *room, image perdure.Image) (perdure.Image, string) {
	key := PictureKey(sha256.Sum256([]byte(image.Base64)))
	why := ""
	p.mu.Lock()
	refused := p.refused[key] || slices.Contains(r.left, key)
	p.mu.Unlock()
	if refused {
		why = "the provider of the model refused it"
	}
	decodes := false
	if why == "" {
		image, decodes, why = p.fitOne(key, r, image)
	}
	switch {
	case why != "":
	case r.limits.Count > 0 && r.sent == r.limits.Count:
		why = fmt.Sprintf("a request can have %d pictures", r.limits.Count)
	case r.limits.Total > 0 && r.total+len(image.Base64) > r.limits.Total:
		why = "the pictures of a request are too large together"
	}
	if why != "" {
		p.logOnce(key, why)
		return image, "[A picture was here. It is not shown, because " + why + ".]"
	}
	r.sent++
	r.total += len(image.Base64)
	f.Sent = append(f.Sent, key)
	if !decodes {
		f.suspects = append(f.suspects, key)
	}
	return image, ""
}

// logOnce logs that a picture is left out, once for each picture.
func (p *Pictures) logOnce(key PictureKey, why string) {
	p.mu.Lock()
	known := p.logged[key]
	remember(p.logged, key)
	p.mu.Unlock()
	if !known {
		p.log.Warn("the model does not see a picture", "because", why)
	}
}

// fitOne fits one picture to the limits for each. decodes says that it can be decoded here; why is
// why it cannot be sent.
func (p *Pictures) fitOne(key PictureKey, r *room, in perdure.Image) (out perdure.Image, decodes bool, why string) {
	text := strings.Join(strings.Fields(in.Base64), "")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw) == 0 {
		return in, false, "its data is not base64"
	}
	if found := mediaType(raw); found != "" {
		in.MediaType = found // providers refuse a picture of another type than stated
	}
	if !slices.Contains(strings.Fields(pictureTypes), in.MediaType) {
		return in, false, fmt.Sprintf("its type is %.40s, and only PNG, JPEG, GIF and WebP can be shown", in.MediaType)
	}
	in.Base64 = text
	size, _, err := image.DecodeConfig(bytes.NewReader(raw))
	decodes = err == nil
	tooLong := r.limits.Base64 > 0 && len(text) > r.limits.Base64
	tooWide := r.edge() > 0 && max(size.Width, size.Height) > r.edge()
	if !tooLong && !tooWide {
		return in, decodes, ""
	}
	small := p.scale(key, raw, size, r.limits)
	if small.Base64 == "" {
		return in, decodes, fmt.Sprintf("it has %s, which is more than the provider accepts, and it could not be scaled down",
			sizeText(len(raw), size))
	}
	return small, true, ""
}

// scale returns a picture scaled down, without data if that cannot be done. The result is kept,
// because a picture is sent with every later request.
func (p *Pictures) scale(key PictureKey, raw []byte, size image.Config, limits PictureLimits) perdure.Image {
	p.mu.Lock()
	known, ok := p.scaled[key]
	p.mu.Unlock()
	if ok {
		return known
	}
	small, _ := scaledDown(raw, size, limits)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.scaled) >= maxScaled {
		clear(p.scaled)
	}
	p.scaled[key] = small
	return small
}

func sizeText(bytes int, size image.Config) string {
	text := fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	if size.Width > 0 {
		text += fmt.Sprintf(" and %d × %d pixels", size.Width, size.Height)
	}
	return text
}

// mediaType returns the type that the bytes of a picture have; empty: none that is known.
func mediaType(raw []byte) string {
	switch {
	case bytes.HasPrefix(raw, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(raw, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(raw, []byte("GIF87a")), bytes.HasPrefix(raw, []byte("GIF89a")):
		return "image/gif"
	case len(raw) > 12 && bytes.HasPrefix(raw, []byte("RIFF")) && string(raw[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// Adapt fits the pictures of messages again after a refusal of f, and returns false if they cannot
// be the reason or nothing is left to change. bad says that the provider called the request itself
// wrong: if it does not say why, pictures that it has never accepted may be the reason.
func (p *Pictures) Adapt(messages []perdure.Message, f Fit, r Refused, bad bool) (Fit, bool) {
	named := r.NamesPicture(len(f.Sent) > 0)
	switch {
	case named && p.learnCount(r.Words, len(f.Sent)):
		return p.Fit(messages, f.Left), true
	case !named && !(bad && r.IsBadRequest()):
		return f, false
	}
	leave, ok := p.leaveOut(f, named)
	if !ok {
		return f, false
	}
	return p.Fit(messages, leave), true
}

// countNamed matches the number of pictures that a refusal allows, as vLLM, Groq, Anthropic and
// others name it.
var countNamed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:at most|up to|maximum of|max of|limit of|only|exceeds? the limit of)\s+(\d+)\s+(?:images?|pictures?)|image=(\d+)|images[^.]{0,40}> (\d+)`)
})

// learnCount learns how many pictures a request may have from a refusal of one with sent pictures.
func (p *Pictures) learnCount(words string, sent int) bool {
	found := countNamed().FindStringSubmatch(words)
	if found == nil {
		return false
	}
	most, err := strconv.Atoi(strings.Join(found[1:], ""))
	if err != nil || most < 1 || most >= sent {
		return false
	}
	p.mu.Lock()
	p.limits.Count = most
	p.mu.Unlock()
	p.log.Warn("the provider accepts fewer pictures in a request", "pictures", most)
	return true
}

// leaveOut returns which pictures the next attempt leaves out: first those that cannot be decoded
// here, then all that the provider has never accepted, then, if the refusal named pictures, all.
// false: there is nothing to leave out.
func (p *Pictures) leaveOut(f Fit, named bool) ([]PictureKey, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew := func(all []PictureKey) []PictureKey {
		return slices.DeleteFunc(slices.Clone(all), func(k PictureKey) bool { return p.accepted[k] })
	}
	for i, more := range [][]PictureKey{isNew(f.suspects), isNew(f.Sent), f.Sent} {
		if len(more) > 0 && (named || i < 2) {
			return slices.Concat(f.Left, more), true
		}
	}
	return nil, false
}

// Answered records that a request was answered: its pictures are acceptable, and those that it
// left out are not, unless an earlier request had them.
func (p *Pictures) Answered(f Fit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range f.Left {
		if !p.accepted[key] {
			remember(p.refused, key)
		}
	}
	for _, key := range f.Sent {
		remember(p.accepted, key)
	}
}

func remember(keys map[PictureKey]bool, key PictureKey) {
	if len(keys) >= maxRemembered && !keys[key] {
		clear(keys)
	}
	keys[key] = true
}
