package acp

import (
	"context"
	"slices"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/tidemark-sessions/tidemark"
)

// modelOption is the only setting that an editor can choose for a session.
const modelOption sdk.SessionConfigId = "model"

// offered returns the current model and all models of a session; none while
// somebody else writes.
func (s *session) offered() (now string, all []string) {
	c := s.chat()
	if c == nil || s.a.o.Model == nil {
		return "", nil
	}
	provider, name := c.ModelName()
	now, all = provider+"/"+name, slices.Clone(s.a.o.Models)
	if !slices.Contains(all, now) {
		all = append([]string{now}, all...)
	}
	return now, all
}

// config lists the settings of the session.
func (s *session) config() []sdk.SessionConfigOption {
	now, all := s.offered()
	if now == "" {
		return nil
	}
	var options sdk.SessionConfigSelectOptionsUngrouped
	for _, name := range all {
		options = append(options, sdk.SessionConfigSelectOption{Name: name, Value: sdk.SessionConfigValueId(name)})
	}
	return []sdk.SessionConfigOption{{Select: &sdk.SessionConfigOptionSelect{
		Id: modelOption, Name: "Model", Category: sdk.Ptr(sdk.SessionConfigOptionCategoryModel), Type: "select",
		CurrentValue: sdk.SessionConfigValueId(now), Options: sdk.SessionConfigSelectOptions{Ungrouped: &options},
	}}}
}

// current is the model that a config names as chosen.
func current(config []sdk.SessionConfigOption) sdk.SessionConfigValueId {
	if len(config) == 0 {
		return ""
	}
	return config[0].Select.CurrentValue
}

// models is the same for editors that do not know options yet.
func (s *session) models() *sdk.SessionModelState {
	now, all := s.offered()
	if now == "" {
		return nil
	}
	m := &sdk.SessionModelState{CurrentModelId: sdk.ModelId(now)}
	for _, name := range all {
		m.AvailableModels = append(m.AvailableModels, sdk.ModelInfo{ModelId: sdk.ModelId(name), Name: name})
	}
	return m
}

func (a *connection) setConfig(_ context.Context, p sdk.SetSessionConfigOptionRequest) (r sdk.SetSessionConfigOptionResponse, err error) {
	if p.ValueId == nil || p.ValueId.ConfigId != modelOption {
		return r, tidemark.Invalidf("there is one thing to choose: %s", modelOption)
	}
	s, err := a.choose(p.ValueId.SessionId, string(p.ValueId.Value))
	if err != nil {
		return r, err
	}
	return sdk.SetSessionConfigOptionResponse{ConfigOptions: s.config()}, nil
}

func (a *connection) setModel(_ context.Context, p sdk.UnstableSetSessionModelRequest) (r sdk.UnstableSetSessionModelResponse, err error) {
	_, err = a.choose(p.SessionId, string(p.ModelId))
	return r, err
}

// choose switches to another model from the next request on.
func (a *connection) choose(id sdk.SessionId, name string) (*session, error) {
	s, err := a.find(id)
	if err != nil {
		return nil, err
	}
	c := s.chat()
	switch {
	case a.o.Model == nil:
		return nil, tidemark.Unsupportedf("the model cannot be changed")
	case c == nil:
		return nil, tidemark.Conflictf("session %s is written to elsewhere", s.id)
	}
	m, err := a.o.Model(c, name)
	if err != nil {
		return nil, err
	}
	return s, c.SetModel(m.Client, m.Provider, m.Name, m.Remote)
}
