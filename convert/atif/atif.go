package atif

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-sessions/tidemark"
	"github.com/tidemark-sessions/tidemark/convert"
)

// version is the version of the format that is written.
const version = "ATIF-v1.7"

// Tool is the Agent Trajectory Interchange Format.
func Tool() convert.Tool { return written("atif", "ATIF", exportTrajectory) }

type trajectory struct {
	SchemaVersion string         `json:"schema_version"`
	SessionID     string         `json:"session_id,omitempty"`
	TrajectoryID  string         `json:"trajectory_id,omitempty"`
	Agent         agent          `json:"agent"`
	Steps         []*step        `json:"steps"`
	FinalMetrics  finalMetrics   `json:"final_metrics"`
	Extra         map[string]any `json:"extra,omitempty"`
	Subagents     []*trajectory  `json:"subagent_trajectories,omitempty"`
}

type agent struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	ModelName string `json:"model_name,omitempty"`
}

type step struct {
	StepID           int            `json:"step_id"`
	Timestamp        string         `json:"timestamp,omitempty"`
	Source           string         `json:"source"`
	ModelName        string         `json:"model_name,omitempty"`
	Message          any            `json:"message"` // a text or a list of parts
	ReasoningContent string         `json:"reasoning_content,omitempty"`
	ToolCalls        []toolCall     `json:"tool_calls,omitempty"`
	Observation      *observation   `json:"observation,omitempty"`
	Metrics          *metrics       `json:"metrics,omitempty"`
	Extra            map[string]any `json:"extra,omitempty"`
}

type toolCall struct {
	ToolCallID   string `json:"tool_call_id"`
	FunctionName string `json:"function_name"`
	Arguments    any    `json:"arguments"`
}

type observation struct {
	Results []*result `json:"results"`
}

type result struct {
	SourceCallID string         `json:"source_call_id,omitempty"`
	Content      any            `json:"content,omitempty"`
	Subagents    []subagentRef  `json:"subagent_trajectory_ref,omitempty"`
	Extra        map[string]any `json:"extra,omitempty"`
}

type subagentRef struct {
	TrajectoryID string `json:"trajectory_id"`
}

type metrics struct {
	PromptTokens     int64          `json:"prompt_tokens"`
	CompletionTokens int64          `json:"completion_tokens"`
	CachedTokens     int64          `json:"cached_tokens"`
	CostUSD          float64        `json:"cost_usd,omitempty"`
	Extra            map[string]any `json:"extra,omitempty"`
}

type finalMetrics struct {
	PromptTokens     int64   `json:"total_prompt_tokens"`
	CompletionTokens int64   `json:"total_completion_tokens"`
	CachedTokens     int64   `json:"total_cached_tokens"`
	CostUSD          float64 `json:"total_cost_usd,omitempty"`
	Steps            int     `json:"total_steps"`
}

// plot makes one trajectory.
type plot struct {
	out    convert.Out
	lost   losses
	name   string // of the file, for pictures beside it
	images int
	t      *trajectory
	calls  map[string]*step // by the call that they make
}

func exportTrajectory(ctx context.Context, out convert.Out, s *convert.Session) ([]string, error) {
	id := idOf(s)
	lost := losses{}
	entries, err := lost.pathTo(ctx, s.Entries, s.Head)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, tidemark.Invalidf("session %s: nothing was said in it, and a trajectory needs a step", id)
	}
	p := &plot{out: out, lost: lost, name: fileName(id)}
	if err := p.draw(id, "", agent{cmp.Or(s.Agent, "unknown"), "unknown", s.Model}, entries); err != nil {
		return nil, err
	}
	p.t.Extra = about(s)
	if err := p.addWorkers(ctx, id, s); err != nil {
		return nil, err
	}
	return lost.report(s), write(out, p.name+".trajectory.json", p.t)
}

// about describes a session, apart from its steps.
func about(s *convert.Session) map[string]any {
	all := map[string]any{}
	for k, v := range map[string]string{"title": s.Title, "project": s.Project, "foreign_id": s.ForeignID, "mode": s.Mode, "copied_from": s.Copied} {
		if v != "" {
			all[k] = v
		}
	}
	if len(s.Tags) > 0 {
		all["tags"] = s.Tags
	}
	if !s.CreatedAt.IsZero() {
		all["created_at"] = s.CreatedAt.UTC().Format(time.RFC3339Nano)
	}
	if s.Fork != nil {
		all["forked_from"] = map[string]string{"session": s.Fork.Session, "entry": s.Fork.Entry}
	}
	var extra map[string]json.RawMessage
	if json.Unmarshal(s.Extra, &extra) == nil && len(extra) > 0 {
		all["extra"] = extra
	}
	return all
}

// addWorkers embeds the trajectories of helpers; the result of the call that
// started each refers to it.
func (p *plot) addWorkers(ctx context.Context, id string, s *convert.Session) error {
	seen := map[string]bool{}
	for _, w := range s.Workers {
		entries, err := p.lost.pathTo(ctx, w.Entries, "")
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			p.lost.add("helpers that said nothing", 1)
			continue
		}
		name := id + "/" + w.Name
		for n := 2; seen[name]; n++ {
			name = fmt.Sprintf("%s/%s#%d", id, w.Name, n)
		}
		seen[name] = true
		sub := &plot{out: p.out, lost: p.lost, name: p.name, images: p.images}
		if err := sub.draw(id, name, agent{cmp.Or(w.Name, "unknown"), "unknown", s.Model}, entries); err != nil {
			return err
		}
		p.images = sub.images
		p.t.Subagents = append(p.t.Subagents, sub.t)
		if maker := p.calls[w.Call]; maker != nil && w.Call != "" {
			r := maker.resultOf(w.Call)
			r.Subagents = append(r.Subagents, subagentRef{name})
		}
	}
	return nil
}

// resultOf returns the result of a call in a step, a new one if the call has
// none.
func (s *step) resultOf(call string) *result {
	if s.Observation == nil {
		s.Observation = &observation{}
	}
	for _, r := range s.Observation.Results {
		if r.SourceCallID == call {
			return r
		}
	}
	r := &result{SourceCallID: call}
	s.Observation.Results = append(s.Observation.Results, r)
	return r
}

func (p *plot) draw(session, id string, who agent, entries []convert.Entry) error {
	p.t = &trajectory{SchemaVersion: version, SessionID: session, TrajectoryID: id, Agent: who}
	p.calls = map[string]*step{}
	for _, e := range entries {
		p.count(e.Usage)
		if err := p.entry(e); err != nil {
			return err
		}
	}
	p.t.FinalMetrics.Steps = len(p.t.Steps)
	return nil
}

func (p *plot) count(u *tidemark.Usage) {
	if u == nil {
		return
	}
	f := &p.t.FinalMetrics
	f.PromptTokens += u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens
	f.CompletionTokens += u.OutputTokens
	f.CachedTokens += u.CacheReadTokens
	f.CostUSD += u.CostUSD
}

func (p *plot) add(e convert.Entry, source string) *step {
	s := &step{StepID: len(p.t.Steps) + 1, Source: source, Message: ""}
	if !e.At.IsZero() {
		s.Timestamp = e.At.UTC().Format(time.RFC3339Nano)
	}
	var extra map[string]any
	if json.Unmarshal(e.Extra, &extra) == nil && len(extra) > 0 {
		s.Extra = extra
	}
	p.t.Steps = append(p.t.Steps, s)
	return s
}

// entry makes a step, or adds results to the step that called for them.
func (p *plot) entry(e convert.Entry) (err error) {
	switch {
	case !isMessage(e):
		s := p.add(e, "system")
		s.Extra = with(s.Extra, "kind", e.Kind)
		if e.Usage != nil {
			s.Extra = with(s.Extra, "usage", e.Usage)
		}
		s.Message, err = p.content(e.Blocks)
	case e.Role == tidemark.Tool:
		return p.results(e)
	case e.Role == tidemark.Assistant:
		return p.answer(e)
	default:
		s := p.add(e, string(e.Role))
		s.Message, err = p.content(e.Blocks)
	}
	return err
}

func with(extra map[string]any, key string, v any) map[string]any {
	if extra == nil {
		extra = map[string]any{}
	}
	extra[key] = v
	return extra
}

func (p *plot) answer(e convert.Entry) (err error) {
	s := p.add(e, "agent")
	s.ModelName = e.Model
	var said []tidemark.Block
	var thoughts []string
	for _, b := range e.Blocks {
		switch b.Type {
		case tidemark.BlockThinking:
			if b.Text != "" {
				thoughts = append(thoughts, b.Text)
			}
			if b.Raw != "" {
				p.lost.add("signatures of thoughts", 1)
			}
		case tidemark.BlockToolUse:
			id := cmp.Or(b.ID, fmt.Sprintf("call-%d-%d", s.StepID, len(s.ToolCalls)+1))
			s.ToolCalls = append(s.ToolCalls, toolCall{id, cmp.Or(b.Name, "unknown"), asObject(b.Input)})
			p.calls[id] = s
		default:
			said = append(said, b)
		}
	}
	s.ReasoningContent = strings.Join(thoughts, "\n\n")
	if u := e.Usage; u != nil {
		s.Metrics = &metrics{
			PromptTokens: u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens, CompletionTokens: u.OutputTokens,
			CachedTokens: u.CacheReadTokens, CostUSD: u.CostUSD,
		}
		if u.CacheWriteTokens > 0 {
			s.Metrics.Extra = map[string]any{"cache_creation_input_tokens": u.CacheWriteTokens}
		}
	}
	s.Message, err = p.content(said)
	return err
}

// results go into the step of their call: only there may they refer to it.
func (p *plot) results(e convert.Entry) error {
	var loose *step
	for i, b := range e.Blocks {
		blocks := []tidemark.Block{b}
		if b.Type == tidemark.BlockToolResult {
			blocks = b.Blocks
			if b.Text != "" && !slices.ContainsFunc(blocks, func(b tidemark.Block) bool { return b.Type == tidemark.BlockText }) {
				blocks = append([]tidemark.Block{tidemark.Text(b.Text)}, blocks...)
			}
		}
		content, err := p.content(blocks)
		if err != nil {
			return err
		}
		var r *result
		if maker := p.calls[b.ToolUseID]; maker != nil && b.Type == tidemark.BlockToolResult {
			r = maker.resultOf(b.ToolUseID)
		} else {
			if loose == nil {
				loose = p.add(e, "system")
				loose.Observation = &observation{}
			}
			r = &result{}
			if b.ToolUseID != "" {
				r.Extra = with(r.Extra, "tool_use_id", b.ToolUseID)
			}
			loose.Observation.Results = append(loose.Observation.Results, r)
		}
		r.Content = content
		if b.IsError {
			r.Extra = with(r.Extra, "is_error", true)
		}
		if !e.At.IsZero() {
			r.Extra = with(r.Extra, "timestamp", e.At.UTC().Format(time.RFC3339Nano))
		}
		var extra map[string]any
		if i == 0 && loose == nil && json.Unmarshal(e.Extra, &extra) == nil && len(extra) > 0 {
			if r.Extra == nil {
				r.Extra = map[string]any{}
			}
			maps.Copy(r.Extra, extra)
		}
	}
	return nil
}

// ending is the file name extension of a picture; false for one that the format
// does not support.
func ending(mediaType string) (string, bool) {
	kind, ok := strings.CutPrefix(mediaType, "image/")
	return "." + kind, ok && slices.Contains([]string{"jpeg", "png", "gif", "webp"}, kind)
}

// content is a text, or parts where there are pictures; those are written to
// files beside the trajectory.
func (p *plot) content(blocks []tidemark.Block) (any, error) {
	type object = map[string]any
	var texts []string
	parts := []object{}
	pictures := false
	for _, b := range blocks {
		end, ok := ending(b.MediaType)
		switch {
		case b.Type == tidemark.BlockText:
			texts = append(texts, b.Text)
			parts = append(parts, object{"type": "text", "text": b.Text})
		case b.Type == tidemark.BlockImage && ok && (b.URL != "" || len(b.Data) > 0):
			where := b.URL
			if where == "" {
				p.images++
				where = fmt.Sprintf("%s.images/%d%s", p.name, p.images, end)
				if err := convert.WriteFile(p.out, where, b.Data); err != nil {
					return nil, err
				}
			}
			pictures = true
			parts = append(parts, object{"type": "image", "source": object{"media_type": b.MediaType, "path": where}})
		default:
			p.lost.add("files and pictures that are not JPEG, PNG, GIF or WebP", 1)
		}
	}
	if pictures {
		return parts, nil
	}
	return strings.Join(texts, "\n"), nil
}
