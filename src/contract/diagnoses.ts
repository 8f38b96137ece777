/** Next step of each `diagnosisReason`, for clients that show more than the cause. */
export { diagnoses } from '../domain/instance-states.ts';
