SELECT jsonb_build_object('ok', true, 'code', 'found') || to_jsonb(p) FROM agentq.v_proposal p WHERE proposal_id = $1
