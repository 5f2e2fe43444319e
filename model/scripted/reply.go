package scripted

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// reply is a checked Reply.
type reply struct {
	Reply
	path           string // its path in the script
	text, thinking textTemplate
	arguments      []arguments // of the calls, in order
}

func compileReply(r Reply, path string) (reply, error) {
	c := reply{Reply: r, path: path}
	if err := r.check(path); err != nil {
		return c, err
	}
	var err error
	if c.text, err = compilePhrase(r.Text, path+".text"); err != nil {
		return c, err
	}
	if c.thinking, err = compilePhrase(r.Thinking, path+".thinking"); err != nil {
		return c, err
	}
	for i, call := range r.Calls {
		at := path + ".calls[" + strconv.Itoa(i) + "]"
		if call.Name == "" {
			return c, newFault(at, "name is missing: add the name of the tool to call")
		}
		args, err := compileArguments(call, at)
		if err != nil {
			return c, err
		}
		c.arguments = append(c.arguments, args)
	}
	return c, nil
}

// check finds invalid values and contradicting keys.
func (r Reply) check(path string) error {
	if err := r.checkNumbers(path); err != nil {
		return err
	}
	finishes := []model.Finish{model.FinishStop, model.FinishCalls, model.FinishLength, model.FinishRefusal}
	if r.Finish != "" && !slices.Contains(finishes, r.Finish) {
		return newFault(path+".finish", "%.40q is not a finish; allowed: %s", r.Finish, list(finishes))
	}
	switch {
	case r.Signature != "" && r.Thinking == "":
		return newFault(path+".signature", "a signature needs thinking, and there is none")
	case r.Refusal && r.Finish != "":
		return newFault(path, "use refusal or finish, not both")
	case (r.Refusal || r.Finish == model.FinishRefusal) && len(r.Calls) > 0:
		return newFault(path, "a refusal calls no tools: use refusal or calls, not both")
	case r.CutAfterBytes != nil && (r.Refusal || r.Finish != ""):
		return newFault(path, "a stream that is cut off has no finish: use cut_after_bytes, or finish or refusal")
	case r.Error != nil:
		return r.checkError(path)
	}
	return nil
}

func (r Reply) checkNumbers(path string) error {
	spans := []struct {
		key string
		d   time.Duration
	}{{"delay", r.Delay}, {"stall", r.Stall}, {"pace", r.Pace}}
	for _, s := range spans {
		if s.d < 0 {
			return newFault(path+"."+s.key, "%s is negative: a duration must be 0 or more", s.d)
		}
	}
	if r.Chunk < 0 {
		return newFault(path+".chunk", "%d is too small: it is a number of bytes, and 0 means the whole text", r.Chunk)
	}
	if r.CutAfterBytes != nil && *r.CutAfterBytes < 0 {
		return newFault(path+".cut_after_bytes", "%d is too small: it counts from 0", *r.CutAfterBytes)
	}
	if u := r.Usage; u != nil && min(u.InputTokens, u.OutputTokens, u.CachedTokens) < 0 {
		return newFault(path+".usage", "a token count must be 0 or more")
	}
	return nil
}

func (r Reply) checkError(path string) error {
	e := r.Error
	at := path + ".error"
	switch {
	case e.Code == "":
		return newFault(at, "code is missing; allowed: %s", list(model.Codes()))
	case !slices.Contains(model.Codes(), e.Code):
		return newFault(at+".code", "%.40q is not a code; allowed: %s", e.Code, list(model.Codes()))
	case e.RetryAfter < 0:
		return newFault(at+".retry_after", "%s is negative: a duration must be 0 or more", e.RetryAfter)
	case e.AfterBytes != nil && *e.AfterBytes < 0:
		return newFault(at+".after_bytes", "%d is too small: it counts from 0", *e.AfterBytes)
	case r.Finish != "" || r.Refusal || r.CutAfterBytes != nil:
		return newFault(path, "a stream ends only once: use error, or one of finish, refusal and cut_after_bytes")
	case e.AfterBytes != nil && !r.hasContent():
		return newFault(at+".after_bytes", "there is nothing before the error: add text, thinking or calls")
	case e.AfterBytes == nil && (r.hasContent() || r.Usage != nil || r.Chunk > 0 || r.Pace > 0):
		return newFault(path, "use an error or an answer, not both; "+
			"for an error in the middle of an answer add error.after_bytes")
	}
	return nil
}

func (r Reply) hasContent() bool { return r.Text != "" || r.Thinking != "" || len(r.Calls) > 0 }

// fill returns the answer to a request.
func (c *reply) fill(req model.Request, name string) (answer, error) {
	t := transcriptOf(req)
	a := answer{reply: &c.Reply, model: name}
	var err error
	if a.text, err = c.text.fill(t); err != nil {
		return a, newFault(c.path+".text", "%v", err)
	}
	if a.thinking, err = c.thinking.fill(t); err != nil {
		return a, newFault(c.path+".thinking", "%v", err)
	}
	for i, call := range c.Calls {
		args, err := c.arguments[i].fill(t)
		if err != nil {
			return a, newFault(c.path+".calls["+strconv.Itoa(i)+"].args", "%v", err)
		}
		a.calls = append(a.calls, perdure.ToolCall{ID: perdure.CallID(call.ID), Name: call.Name, Arguments: []byte(args)})
	}
	a.usage = a.estimate(req)
	if c.Usage != nil {
		a.usage = *c.Usage
	}
	return a, nil
}

// modelName returns the name of the answering model: the requested name, or else the script's.
func modelName(script, requested string) string {
	if requested = strings.TrimPrefix(requested, "scripted:"); requested != "" {
		return "scripted:" + requested
	}
	return "scripted:" + script
}
