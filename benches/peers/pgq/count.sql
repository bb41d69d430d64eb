-- Events are consumed in batches by all who subscribe, so there are no finished ones.
SELECT CASE WHEN is_called THEN last_value ELSE 0 END, 0::bigint FROM pgq.event_1_id_seq;
